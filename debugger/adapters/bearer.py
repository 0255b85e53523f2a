"""A bearer token by the name of the environment variable that holds it."""

import os
import re
from typing import Final

from branches.ports import Target
from debugger.adapters.options import text
from debugger.adapters.outbound import Place, Unreachable

_SECRET: Final = re.compile(r"[\x21-\x7e]{1,8192}")


def bearer(target: Target, place: Place) -> dict[str, str]:
    """Return the header that `auth_env` asks for, none where it is not given.

    The secret never travels in clear, except to this machine. Raises TargetUnfit, Unreachable.
    """
    if "auth_env" not in target.options:
        return {}
    secret = os.environ.get(text(target, "auth_env"), "")
    if not _SECRET.fullmatch(secret):
        raise Unreachable("secret_missing")
    if place.scheme != "https" and target.options.get("allow") != "loopback":
        raise Unreachable("secret_in_clear")
    return {"Authorization": f"Bearer {secret}"}
