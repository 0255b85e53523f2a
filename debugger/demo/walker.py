"""Somebody who walks through the demo over HTTP: two people's browsers, and what was seen on the way."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

AGAIN: Final = "/sign-in/again/"


class WalkFailed(Exception):
    """The walk did not see what it must see."""


@dataclass
class Visitor:
    """One person's browser: a session, and forms posted with the token of the page they are on."""

    name: str
    client: httpx.Client

    @classmethod
    def signed_in(cls, base: str, name: str) -> "Visitor":
        visitor = cls(name, httpx.Client(base_url=base, timeout=30, follow_redirects=True, trust_env=False))
        visitor.get("/accounts/login/")
        visitor.post(f"/demo/sign-in/{name}/", {})
        return visitor

    def get(self, path: str) -> str:
        response = self.client.get(path)
        response.raise_for_status()
        return response.text

    def post(self, path: str, form: dict[str, str]) -> httpx.Response:
        response = self._post(path, form)
        if response.url.path == AGAIN and path != AGAIN:
            # Five minutes after the sign-in a decision takes one more click, and then goes on by itself.
            response = self._post(AGAIN, {"next": response.url.params.get("next", "/")})
        return response

    def _post(self, path: str, form: dict[str, str]) -> httpx.Response:
        token = self.client.cookies.get("csrftoken") or ""
        return self.client.post(path, data={**form, "csrfmiddlewaretoken": token})


@dataclass
class Walk:
    """The walk's state: where the server is, who walks, and what was seen so far."""

    base: str
    token: str
    run: str
    brief: str
    say: Callable[[str], None]
    seen: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    branch: str = ""

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.api = httpx.Client(base_url=f"{self.base}/api/v1", headers=headers, timeout=30, trust_env=False)
        self.ada = Visitor.signed_in(self.base, "ada")
        self.grace = Visitor.signed_in(self.base, "grace")
        self.barbara = Visitor.signed_in(self.base, "barbara")

    # What is read

    def verdict(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.api.get(f"/branches/{self.branch}").raise_for_status().json()
        return answer

    def note(self, why: str) -> str:
        """Print the status where it is another than before, and what made it move."""
        status = str(self.verdict()["status"])
        if not self.seen or self.seen[-1] != status:
            self.seen.append(status)
            self.say(f"{status:<22} {why}")
        return status

    def wait(self, wanted: str, why: str, *, seconds: float = 60) -> None:
        """Wait for a status, noting every other on the way; fails when the time is over."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.note(why) == wanted:
                return
            time.sleep(0.05)
        verdict = self.verdict()
        raise WalkFailed(f"{wanted} did not come: {verdict['status']} {verdict['reasons']}")

    def until(self, holds: Callable[[dict[str, Any]], bool], what: str, *, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if holds(self.verdict()):
                return
            time.sleep(0.1)
        raise WalkFailed(f"{what} did not come: {self.verdict()['reasons']}")

    # What is done

    def on_branch(self, action: str, **form: str) -> httpx.Response:
        return self.ada.post(f"/branches/{self.branch}/{action}/", form)

    def job(self, kind: str, subject: str) -> None:
        self.ada.post(f"/runs/{self.branch}/jobs/", {"kind": kind, "subject": subject}).raise_for_status()

    def must_refuse(self, what: str, response: httpx.Response, *, words: str) -> None:
        """Print the refusal; fail where it was none."""
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text))
        found = re.search(words, text)
        if found is None:
            raise WalkFailed(f"not refused: {what}")
        self.refused.append(what)
        self.say(f"  refused: {what}: {found.group(0).strip()}")
