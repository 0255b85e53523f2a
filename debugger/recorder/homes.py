"""Which home folder this is, so that a copy of it is another one."""

import hashlib
from pathlib import Path
from typing import Final

_MACHINE: Final = Path("/etc/machine-id")


def place_of(home: Path) -> str:
    """Return a digest of the machine, of the folder's absolute path and of its number on the disk.

    The same for every program on one home, also after it was killed and when the machine starts again.
    Another one for a copy, and for a home that was moved or came back from a backup: what such a home had
    redeemed and not started yet is refused, because the original may still start it.
    """
    own = home.resolve()
    parts = (_machine(), str(own), str(own.stat().st_ino))
    return hashlib.sha256("\0".join(("branchgate/home/v1", *parts)).encode()).hexdigest()


def _machine() -> str:
    """Return the machine's id; where there is none, path and number have to tell two homes apart."""
    try:
        return _MACHINE.read_text().strip()
    except OSError:
        return ""
