"""The order of versions that destinations give: dotted numbers can be ordered, nothing else can."""

import re
from typing import Final

_NUMBERS: Final = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})*")


def is_newer(version: str, baseline: str) -> bool | None:
    """Whether a version comes after another; None where their order cannot be told."""
    if not (_NUMBERS.fullmatch(version) and _NUMBERS.fullmatch(baseline)):
        return None
    return [int(part) for part in version.split(".")] > [int(part) for part in baseline.split(".")]
