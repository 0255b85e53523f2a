"""Real places where operations leave something: as it was sent, or otherwise, or not at all."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from branches.ports import Target
from tests.adapters.talks import OPERATION, OTHER, hurry, says, server, stalls

NONSENSE = says(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")
TOOL = "do_it"


class Place:
    """What every destination offers the contract tests; all that is left there holds the marker."""

    kind = ""
    lists = True
    """Whether its target says how everything is listed."""
    tells_times = True
    """Whether what is listed has a time."""
    expected = "done"
    """The outcome that `put` makes and `put_other` does not."""
    has_key = True
    """Whether the target says how an artifact carries its operation's key."""

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        self.folder = folder
        self.held = ExitStack()
        self.patch: pytest.MonkeyPatch = request.getfixturevalue("monkeypatch")

    def target(self, **changes: Any) -> Target:
        raise NotImplementedError

    @property
    def sent(self) -> str | None:
        """The payload's digest as the recorder made it."""
        raise NotImplementedError

    def put(self, key: str = OPERATION) -> None:
        """Carry an operation out, as it was sent."""
        raise NotImplementedError

    def put_other(self) -> None:
        """Leave something else under the operation's key."""
        raise NotImplementedError

    def older(self) -> None:
        """Have something there already, which another run left."""
        self.put(OTHER)

    def gone(self) -> Iterator[tuple[str, Target]]:
        """Ways in which the place does not answer, or answers nonsense; none is undone by the next."""
        raise NotImplementedError

    def half(self) -> Iterator[tuple[str, Target]]:
        """Ways in which it answers, but not of the operation."""
        yield from ()

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        raise NotImplementedError
        yield

    def close(self) -> None:
        self.held.close()


class AtAddress(Place):
    """A place whose option `option` is an address; servers that answer nothing of worth can take it over."""

    option = "url"
    rest = ""

    def gone(self) -> Iterator[tuple[str, Target]]:
        for name, talk in {
            "an error": says(b"HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\n{}"),
            "busy": says(b"HTTP/1.1 503 Oh\r\nContent-Length: 0\r\n\r\n"),
            "nonsense": NONSENSE,
            "half an answer": says(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n[{"),
            "nothing": says(b""),
        }.items():
            with server(talk) as port:
                yield name, self.at(f"http://127.0.0.1:{port}")
        yield "nobody", self.at("http://127.0.0.1:9")

    def at(self, origin: str) -> Target:
        return self.target(**{self.option: origin + self.rest})

    @contextmanager
    def stalling(self) -> Iterator[Target]:
        hurry(self.patch)
        with server(stalls()) as port:
            yield self.at(f"http://127.0.0.1:{port}")
