"""The audits page as Chromium lays it out: on a phone nothing scrolls sideways, and cells differ in shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import pytest
from django.test import Client
from playwright.sync_api import Page, Route

from branches.queries.clock import now, stamp
from branches.queries.topology_view import CELL_MARKS
from tests.browser.visits import PHONE, WIDE, launched
from tests.builders import World, checkpoint, stopped
from tests.web.test_audits_page import delegated, edge, uid  # noqa: F401 - a fixture
from tests.web.test_routing import waiting

# ruff: noqa: F811 - fixtures that are imported
pytestmark = pytest.mark.browser

THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
STATIC: Final = Path(__file__).resolve().parents[2] / "static"
PLACES: Final = """() => [...document.querySelectorAll(".lane")].map((lane) => {
  const {top, height} = lane.getBoundingClientRect();
  return [lane.classList.contains("bare"), top, height];
})"""
SIDEWAYS: Final = """() => [
  document.documentElement, ...document.querySelectorAll(".board, #stops > .scroll")
].map((box) => box.scrollWidth - box.clientWidth)"""
BORDERS: Final = """(states) => states.map((state) => {
  const cell = document.createElement("span");
  cell.className = `cell v-${state}`;
  document.querySelector(".legend").append(cell);
  const {borderTopStyle, borderTopWidth, borderRadius, borderTopColor} = getComputedStyle(cell);
  const drawn = borderTopColor === "rgba(0, 0, 0, 0)" ? "none" : `${borderTopStyle} ${borderTopWidth}`;
  return `${drawn} ${borderRadius}`;
})"""


@contextmanager
def shown(text: str, width: int) -> Iterator[Page]:
    """Open a rendered page in Chromium with the product's own style sheets; no server is asked."""

    def answer(route: Route) -> None:
        path = urlsplit(route.request.url).path
        file = STATIC / path.removeprefix("/static/")
        if path == "/":
            route.fulfill(body=text, content_type="text/html")
        elif file.is_file():
            route.fulfill(path=file)
        else:  # what packages bring lies elsewhere, and is no style sheet
            route.fulfill(status=404)

    with launched() as browser:
        page = browser.new_page(viewport={"width": width, "height": 844})
        page.route("**/*", answer)
        page.goto("http://page.invalid/", wait_until="load")
        yield page


def of_its_own(world: World, sent: dict[str, Any]) -> dict[str, Any]:
    """Return a stop of a loop of its own, which no other loop's stop answers."""
    return {**sent, "body": {**sent["body"], "loop_ref": world.hmac("ref", sent["event_id"])}}


@pytest.fixture
def text(ada: Client, world: World, uid: str) -> str:
    """A page with cards in one column of the board, some edges, and stops of several sorts."""
    own = {
        "owner": world.grace.uid,
        "deadline": stamp(now() - timedelta(hours=2)),
        "resume_token": world.hmac("ref", "own"),
    }
    report = world.ingest(
        *(delegated(world, uid, name) for name in ("one", "two")),
        edge(world, uid, "planner", "writer"),
        edge(world, uid, "critic", world.hmac("name", "stranger")),
        *(of_its_own(world, each) for each in (waiting(world, uid, own), waiting(world, uid, None))),
        stopped(world, uid),
    )
    assert not report.refused, report.refused
    return ada.get(f"/runs/{uid}/audits/").text


def test_nothing_scrolls_sideways_on_a_phone(text: str) -> None:
    with shown(text, PHONE) as page:
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(SIDEWAYS) == [0, 0, 0]
        page.locator("#stops summary").click()
        assert page.evaluate(SIDEWAYS) == [0, 0, 0]


def test_a_runs_page_does_not_scroll_sideways_for_its_stops_and_forks(
    ada: Client, world: World, uid: str
) -> None:
    assert not world.ingest(
        checkpoint(world, uid, "c1"),
        *(of_its_own(world, stopped(world, uid, "ended")) for _ in range(4)),
    ).refused
    with shown(ada.get(f"/runs/{uid}/").text, PHONE) as page:
        assert page.get_by_text("Fork from here").is_visible()
        assert page.evaluate(SIDEWAYS)[0] == 0


def test_columns_with_cards_come_first_and_the_others_are_a_line_each(text: str) -> None:
    with shown(text, PHONE) as page:
        found = page.evaluate(PLACES)
        in_order = sorted(found, key=lambda lane: lane[1])
        assert [bare for bare, _, _ in in_order] == [False] + [True] * 5
        assert max(height for bare, _, height in found if bare) < 32
        assert page.locator(".lane:not(.bare) .op").count() == 2


@pytest.mark.parametrize(("width", "beside"), [(WIDE, 4), (1280, 4), (820, 2)])
def test_on_a_wider_screen_columns_stand_beside_each_other_and_none_is_out_of_sight(
    text: str, width: int, beside: int
) -> None:
    with shown(text, width) as page:
        tops = [top for _, top, _ in page.evaluate(PLACES)]
        assert tops.count(min(tops)) == beside
        assert page.evaluate(SIDEWAYS) == [0, 0, 0]
        assert page.locator("#stops thead").is_visible() is (width > 1040)


def test_a_stop_is_a_card_on_a_phone_whose_cells_say_what_they_are(text: str) -> None:
    with shown(text, PHONE) as page:
        assert not page.locator("#stops thead").is_visible()
        rows = page.locator("#stops tbody tr").all()
        assert len(rows) == 3
        labels = page.evaluate(
            """() => [...document.querySelectorAll("#stops tbody tr:first-child td")]
              .map((cell) => getComputedStyle(cell, "::before").content)"""
        )
        assert labels == [
            f'"{label}"'
            for label in ("Cause", "State", "Waits for", "Policy", "Steps", "Receipt", "Left behind", "Next")
        ]
        first, second = (row.bounding_box() for row in rows[:2])
        assert first is not None
        assert second is not None
        assert first["y"] + first["height"] < second["y"]
        assert rows[0].get_by_text("Overdue").is_visible()


def test_each_sort_of_cell_has_a_border_of_its_own_whatever_its_hue(text: str) -> None:
    states = list(CELL_MARKS)
    with shown(text, WIDE) as page:
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            borders = dict(zip(states, page.evaluate(BORDERS, states), strict=True))
            assert len(set(borders.values())) == len(states), borders
            assert borders["unseen"].startswith("dotted")
            assert borders["seen"].startswith("none")
