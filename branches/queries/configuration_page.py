"""A branch's configuration beside its parent's: changed parts first, digests where a part is content."""

from dataclasses import dataclass
from typing import Final

from branches.models import ConfigurationPin, Run
from branches.queries.authority import newest_pin
from branches.queries.configuration import Part, configuration_delta

_DIGESTS: Final = ("sha256:", "hmac-sha256:")


@dataclass(frozen=True, slots=True)
class ConfigurationPage:
    """Every part of a branch's configuration, and the pin that binds it."""

    branch: Run
    pin: ConfigurationPin | None
    pins: int
    changed: tuple[Part, ...]
    same: tuple[Part, ...]

    @property
    def total(self) -> int:
        return len(self.changed) + len(self.same)


def configuration_page(branch: Run) -> ConfigurationPage:
    """Return the delta of a branch; `pin` is None where the parent's configuration is not known."""
    pin = newest_pin(branch)
    parts = configuration_delta(branch, pin) if pin is not None else []
    return ConfigurationPage(
        branch=branch,
        pin=pin,
        pins=ConfigurationPin.objects.filter(branch=branch).count(),
        changed=tuple(part for part in parts if part.changed),
        same=tuple(part for part in parts if not part.changed),
    )


def is_digest(value: str | None) -> bool:
    """Return whether a part is shown by its digest only."""
    return value is not None and value.startswith(_DIGESTS)
