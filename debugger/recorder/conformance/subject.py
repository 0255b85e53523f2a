"""What a runtime lends to the suite: a small team of its own, recorded once, that branches can be made of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from debugger.recorder.conformance.gate import Gate


class Subject(Protocol):
    """One team on one runtime. It calls two tools, each in a step of its own, and is recorded whole."""

    runtime: str
    version: str
    declaration: Mapping[str, Any]
    """The workflow that the gate hands out."""

    def record(self, gate: Gate, folder: Path) -> None:
        """Pair with the gate, record one run to its end, and deliver every receipt of it."""

    def checkpoint(self, gate: Gate) -> Mapping[str, Any]:
        """Return a recorded checkpoint behind which both calls lie."""

    def resume(self, envelope: Mapping[str, Any]) -> str:
        """Take one permit as far as it may go; returns the recorder's word."""

    def exists(self, branch: str) -> bool:
        """Whether anything of a branch stands in the runtime's own store."""

    def calls(self) -> list[str]:
        """Return the tools that were really called until now, in order."""

    def parent(self) -> object:
        """Return the parent's rows as they stand in the store, to be compared."""

    def close(self) -> None:
        """Let go of everything; the folder is deleted after it."""


class Unavailable(Exception):
    """The runtime is not installed here, or in a version that the recorder does not know."""
