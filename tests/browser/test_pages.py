"""Every page that a person can reach: usable by everybody, quiet, alone, and no wider than a phone."""

import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from debugger import contracts as templates
from debugger.demo.walker import Visitor, Walk
from tests.browser.journey import Journey, press
from tests.browser.sitemap import ACTS, DOWNLOADS, FRAGMENTS, PAGES, Stop, routes
from tests.browser.visits import COLOURS, FRESH_S, PHONE, WIDE, Visit, violations
from tests.worlds import DemoProcess

STOPS = [pytest.param(stop, id=f"{name}: {stop.name}") for name, stops in PAGES.items() for stop in stops]
NAV = ("Runs", "Branches", "Approvals", "Outcomes", "Receipts")
MOST_NODES = 1500


@pytest.fixture(scope="package")
def places(demo: DemoProcess, journey: Journey, unsettled: Walk, asked: tuple[Walk, str]) -> dict[str, str]:
    """What the addresses in the sitemap name."""
    open_branch, request = asked
    first: dict[str, str] = {}
    for line in unsettled.api.get(f"/runs/{demo.run}/receipts").text.splitlines():
        receipt = json.loads(line)
        first.setdefault(receipt["kind"], str(receipt["seq"]))
    unsettled.ada.post(f"/runs/{demo.run}/receipts/verify/", {})
    job = re.search(r"/jobs/([a-z0-9_]+)/", unsettled.ada.get(f"/runs/{demo.run}/receipts/"))
    listed = unsettled.ada.get(f"/branches/{unsettled.branch}/edit/?key=agent_memory")
    byline = re.search(r'<code>byline</code>.*?value=([^"#]+)#edit', listed, re.DOTALL)
    invitation, taken_back = invitations(demo)
    assert job is not None
    assert byline is not None
    [contract, draft] = (
        unsettled.api.post(
            "/contracts",
            json={
                "workflow": "research-desk",
                "contract": {**templates.contract("concurrent"), "version": f"browser-{word}"},
                "draft": word == "draft",
            },
        ).json()["contract"]
        for word in ("kept", "draft")
    )
    return {
        "run": demo.run,
        "brief": quote(demo.brief),
        "byline": byline.group(1),
        "verified": journey.branch,
        "closed": journey.request,
        "unsettled": unsettled.branch,
        "asked": open_branch.branch,
        "open": request,
        "message": first["message"],
        "checkpoint": first["checkpoint"],
        "job": job.group(1),
        "invitation": invitation,
        "taken_back": taken_back,
        "contract": contract,
        "draft": draft,
    }


def invitations(demo: DemoProcess) -> list[str]:
    """Make two invitations, take the second back, and return the secrets of their links."""
    barbara = Visitor.signed_in(demo.base, "barbara")
    made = [barbara.post("/people/invitations/", {"role": "viewer", "days": "7"}).text for _ in range(2)]
    page = barbara.get("/people/")
    newest = re.search(r"/people/invitations/(inv_[a-z0-9]+)/withdraw/", page)
    assert newest is not None
    barbara.post(f"/people/invitations/{newest[1]}/withdraw/", {})
    barbara.client.close()
    return [found[1] for text in made if (found := re.search(r"/invitations/(bgi_[^/]+)/", text))]


@dataclass
class Kept:
    """Pages that stay open, one for each person."""

    visit: Visit
    pages: dict[str | None, Page] = field(default_factory=dict)
    opened: dict[str | None, float] = field(default_factory=dict)

    def at(self, stop: Stop, places: dict[str, str]) -> Page:
        """Return the person's page, light, wide and freshly at a stop."""
        self.visit.strange.clear()
        self.visit.expected = {stop.status} - {200}
        # The pages of one's own keys ask for a fresh proof, and a slow run outlasts one.
        if time.monotonic() - self.opened.get(stop.person, -FRESH_S) > FRESH_S / 2:
            self.visit.signed_in.pop(stop.person or "", None)
            self.pages[stop.person] = self.visit(stop.person)
            self.opened[stop.person] = time.monotonic()
        page = self.pages[stop.person]
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": WIDE, "height": 900})
        answer = page.goto(stop.path.format_map(places))
        assert answer is not None
        assert answer.status == stop.status, page.title()
        return page


def test_it_knows_every_route() -> None:
    found = dict(routes())
    assert None not in found.values(), "a route without a name cannot be told from one that was forgotten"
    assert set(found.values()) == {*PAGES, *ACTS, *FRAGMENTS, *DOWNLOADS}


@pytest.fixture(scope="package")
def kept(demo: DemoProcess, chromium: Browser, signed_in: dict[str, Any]) -> Iterator[Kept]:
    """One page for each person: a browser of one's own for every look would take minutes."""
    made = Kept(Visit(demo, chromium, signed_in))
    yield made
    made.visit.close()


@pytest.mark.parametrize("stop", STOPS)
def test_it_is_accessible_quiet_and_fits_a_phone_in_light_and_dark(
    stop: Stop, places: dict[str, str], kept: Kept
) -> None:
    page = kept.at(stop, places)
    assert page.locator("h1").count() == 1
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, *COLOURS) == []
    page.set_viewport_size({"width": PHONE, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert violations(page, "scrollable-region-focusable") == []
    if stop.person:
        assert_reachable(page)
    assert kept.visit.strange == []


def assert_reachable(page: Page) -> None:
    """Fail where a link of the main navigation cannot be brought on to the screen, or is hard to touch."""
    for name in NAV:
        link = page.get_by_role("navigation", name="Main").get_by_role("link", name=name)
        link.scroll_into_view_if_needed()
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert round(box["x"] + box["width"]) <= PHONE
        assert box["height"] >= 24


@pytest.mark.parametrize(
    ("path", "status", "title"),
    [
        ("/runs/run_aaaaaaaaaaaaaaaaaaaaaaaa/", 404, "Not here"),
        ("/no/such/page", 404, "Not here"),
    ],
)
def test_it_says_what_is_not_there(path: str, status: int, title: str, visit: Visit) -> None:
    visit.expects(status)
    page = visit("ada")
    answer = page.goto(path)
    assert answer is not None
    assert answer.status == status
    assert page.get_by_role("heading", level=1).inner_text() == title
    assert violations(page) == []


def test_it_says_that_a_form_without_its_token_changed_nothing(visit: Visit) -> None:
    visit.expects(403)
    page = visit("ada")
    page.goto("/accounts/logout/")
    page.evaluate("document.querySelector('main input[name=csrfmiddlewaretoken]').value = 'x'.repeat(64)")
    press(page.locator("main").get_by_role("button", name="Sign out"))
    assert page.get_by_role("heading", level=1).inner_text() == "This form is too old to be trusted"
    assert violations(page) == []


def test_its_docs_for_machines_ask_no_other_host_and_break_no_rule_of_ours(visit: Visit) -> None:
    page = visit(None)
    page.goto("/api/v1/docs")
    page.get_by_text("/api/v1/receipts").first.wait_for()


def test_its_timeline_is_a_small_page(places: dict[str, str], visit: Visit) -> None:
    page = visit("ada")
    page.goto(f"/runs/{places['run']}/")
    page.wait_for_load_state("networkidle")
    assert page.locator("#window tbody tr").count() > 20
    assert page.evaluate("document.querySelectorAll('*').length") < MOST_NODES


def test_its_theme_button_keeps_what_was_chosen(visit: Visit) -> None:
    page = visit("ada")
    page.goto("/")
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Switch colour theme").click()
    page.goto("/branches/")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    assert violations(page) == []
