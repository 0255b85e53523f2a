"""Visits: pages opened as the demo's people, noticing what no page may do; and branches to look at."""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, sync_playwright

from debugger.demo.walker import Walk
from tests.patience import PATIENCE_S
from tests.worlds import DemoProcess

ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
ROLES: Final = {"ada": "engineer", "grace": "approver", "barbara": "approver", "rosa": "reviewer"}
WIDE, PHONE = 1440, 390
# A sign-in counts as a proof of who decides for five minutes.
FRESH_S: Final = 200.0
NEVER: Final = (None, float("-inf"))
# The rules whose answer a theme can change.
COLOURS: Final = ("color-contrast", "link-in-text-block")


@contextmanager
def launched() -> Iterator[Browser]:
    """Launch Chromium with a fresh profile; Django's ORM will not run in this process until it is closed."""
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium on this machine")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=list(ARGUMENTS), timeout=2000 * PATIENCE_S
        )
        yield browser
        browser.close()


@dataclass
class Visit:
    """Opens pages as people, and keeps everything that their consoles and requests should not show."""

    demo: DemoProcess
    chromium: Browser
    signed_in: dict[str, Any]
    strange: list[str] = field(default_factory=list)
    expected: set[int] = field(default_factory=set)
    posted: list[str] = field(default_factory=list)
    contexts: list[BrowserContext] = field(default_factory=list)

    def __call__(
        self, person: str | None, *, theme: str = "light", scripts: bool = True, width: int = WIDE
    ) -> Page:
        """Return a new page in a browser of a person's own; nobody's where `person` is None."""
        if person is not None and time.monotonic() - self.signed_in.get(person, NEVER)[1] > FRESH_S:
            self._sign_in(person)
        context = self._context(
            storage_state=self.signed_in[person][0] if person else None,
            color_scheme=theme,
            java_script_enabled=scripts,
            viewport={"width": width, "height": 900},
        )
        return context.new_page()

    def expects(self, *statuses: int) -> None:
        """Say which error statuses this test asks for; the browser names them on its console."""
        self.expected.update(statuses)

    def close(self) -> None:
        """Close every page, and fail where one of them logged an error or asked another host."""
        for context in self.contexts:
            context.close()
        assert self.strange == []

    def _context(self, **options: Any) -> BrowserContext:
        context = self.chromium.new_context(base_url=self.demo.base, reduced_motion="reduce", **options)
        context.set_default_timeout(1000 * PATIENCE_S)
        context.on("console", self._on_console)
        context.on("weberror", lambda error: self.strange.append(str(error.error)))
        context.on("request", lambda request: self._on_request(request.method, request.url))
        self.contexts.append(context)
        return context

    def _sign_in(self, person: str) -> None:
        """Sign in as the demo offers it: one click, no password."""
        context = self._context()
        page = context.new_page()
        page.goto("/accounts/login/")
        page.get_by_role("button", name=f"{person.capitalize()}, {ROLES[person]}").click()
        assert page.locator("summary .who").inner_text().endswith(person)
        self.signed_in[person] = (context.storage_state(), time.monotonic())

    def _on_console(self, message: ConsoleMessage) -> None:
        said = message.text
        asked_for = any(f"responded with a status of {status}" in said for status in self.expected)
        if message.type in {"error", "warning"} and not asked_for:
            self.strange.append(f"{message.type} on {message.page and message.page.url}: {said}")

    def _on_request(self, method: str, url: str) -> None:
        if not url.startswith((f"{self.demo.base}/", "data:")):
            self.strange.append(f"a request to another host: {url}")
        if method != "GET" and "/demo/sign-in/" not in url:
            self.posted.append(url)


@contextmanager
def walk_to(demo: DemoProcess, *wanted: Callable[[Walk], Any]) -> Iterator[Walk]:
    """Take a new branch through some of the walk's steps over HTTP, for tests that begin further on."""
    made = Walk(demo.base, demo.token, demo.run, demo.brief, lambda _line: None)
    try:
        for step in wanted:
            step(made)
        yield made
    finally:
        for client in (made.api, made.ada.client, made.grace.client, made.barbara.client):
            client.close()


def violations(page: Page, *only: str) -> list[Any]:
    """Return what axe finds by all of its rules, or only by some: the rule, and where."""
    some = {"runOnly": {"type": "rule", "values": list(only)}} if only else {}
    found = Axe().run(page, options={"resultTypes": ["violations"], **some}).response["violations"]
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found]
