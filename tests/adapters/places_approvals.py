"""A server that answers as Branchgate's approval queue does; the real one is asked in its own test."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from branches.evidence.ids import derive_id
from branches.ports import Target
from tests.adapters.places import MARKER, Place, Web, silent, target

TOKEN_ENV = "BRANCHGATE_TEST_TOKEN"


def request_id(name: str) -> str:
    return derive_id("req", MARKER, name)


class Approvals(Place):
    probe = "branchgate_approvals"
    drifts = frozenset({"pending", "resolved"})

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.held.enter_context(pytest.MonkeyPatch.context()).setenv(TOKEN_ENV, MARKER)
        self.rows = {request_id(str(number)): "pending" for number in range(7)}
        self.rows[request_id("0")] = "approved"
        self.page = 3
        self.asked: list[dict[str, str]] = []
        self.answers: list[Any] = []
        self.web = Web(self.answer)
        self.held.callback(self.web.close)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.headers.get("Authorization") != f"Bearer {MARKER}":
            return 401, [], b"{}"
        if self.answers:
            status, body = self.answers.pop(0)
            return status, [], body if isinstance(body, bytes) else json.dumps(body).encode()
        asked = {name: found[0] for name, found in parse_qs(urlsplit(request.path).query).items()}
        self.asked.append(asked)
        rows = list(self.rows)
        left = rows[rows.index(asked["after"]) + 1 :] if "after" in asked else rows
        listed = [{"request": each, "state": self.rows[each]} for each in left[: self.page]]
        as_of = asked.get("as_of", "2026-11-30T12:00:01Z")
        return (
            200,
            [],
            json.dumps({"as_of": as_of, "requests": listed, "more": len(left) > self.page}).encode(),
        )

    def target(self) -> Target:
        return target(url=self.web.url, auth_env=TOKEN_ENV, allow="loopback")

    def change(self) -> None:
        self.rows[request_id("1")] = "rejected"

    def change_back(self) -> None:
        self.rows[request_id("1")] = "pending"

    def turn(self) -> None:
        self.rows = dict(reversed(self.rows.items()))

    def take_away(self) -> None:
        self.web.close()

    @contextmanager
    def stalling(self, patch: pytest.MonkeyPatch) -> Iterator[Target]:
        with silent(patch) as url:
            yield target(url=url, allow="loopback")
