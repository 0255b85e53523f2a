"""The audits page in a real browser: everything that an audit can say, readable and usable by everybody."""

import json
import subprocess
import sys
from itertools import combinations
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.journey import press
from tests.browser.test_keys import FOCUS_IS_SEEN, FOCUSED
from tests.browser.visits import COLOURS, PHONE, WIDE, Visit, violations
from tests.worlds import ROOT, DemoProcess

COLUMNS = {
    "Orphaned": ["Orphaned", "Orphaned"],
    "Delegated": ["Delegated"],
    "Working": ["Working"],
    "Waiting": ["Waiting", "Waiting"],
    "Stuck": ["Stuck"],
    "Uncertain": ["Uncertain"],
    "Failed outcome": ["Completed, no receipt", "Check failed"],
    "Confirmed by a receipt": ["Receipt is there"],
}
CONTROLS = "main form button:visible, main form select:visible, main form input:visible"
# The boxes of the picture and, by the same numbers, the labels in them; as they are on the screen.
BOXES = """() => [...document.querySelectorAll(".topo .node")].map((node) => {
  const box = node.querySelector("rect").getBoundingClientRect();
  const label = node.querySelector("text").getBoundingClientRect();
  return [box, label].map((each) => [each.left, each.top, each.right, each.bottom]);
})"""

type Edges = tuple[float, float, float, float]


@pytest.fixture(scope="module")
def audited(demo: DemoProcess) -> dict[str, str]:
    """The runs to look at, by name."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.browser.audits_world"],
        cwd=ROOT,
        env={**demo.env, "DEMO_RUN": demo.run},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def opened(visit: Visit, run: str, person: str = "ada", **how: Any) -> Page:
    page = visit(person, **how)
    answer = page.goto(f"/runs/{run}/audits/")
    assert answer is not None
    assert answer.status == 200
    return page


def lanes(page: Page) -> dict[str, list[str]]:
    """The columns of the board, each with its cards' states."""
    found = {}
    for lane in page.locator(".lane").all():
        title = lane.locator("h3").inner_text().rsplit(" ", 1)[0]
        found[title] = lane.locator("h4 .badge").all_inner_texts()
    return found


def cells(page: Page) -> dict[str, int]:
    """How many cells of the matrix are in each state that has to be looked at."""
    states = ("missing", "forbidden", "unknown", "ambig")
    return {state: page.locator(f".mx .cell.v-{state}").count() for state in states}


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_it_shows_all_that_three_audits_can_say(
    audited: dict[str, str], visit: Visit, *, scripts: bool
) -> None:
    page = opened(visit, audited["team"], scripts=scripts)
    assert lanes(page) == COLUMNS
    assert page.locator("#handoffs .notice").inner_text() == (
        "Deadlock: editor, writer wait for each other. No timer mends that."
    )
    assert cells(page) == {"missing": 1, "forbidden": 2, "unknown": 1, "ambig": 1}
    assert page.locator("#topology .badge.lg").inner_text() == "Unknown agent"
    assert page.locator("#topology").get_by_role("link", name="Fork before it").count() == 4
    assert page.locator("#stops tbody td:nth-child(3) .badge").all_inner_texts() == [
        "Waiting, unrouted",
        "Bounded stop",
        "Says complete",
    ]


def test_it_names_no_covered_thing_by_more_than_its_ends(audited: dict[str, str], visit: Visit) -> None:
    assert "hmac-sha256" not in opened(visit, audited["team"]).locator("main").inner_text()


@pytest.mark.parametrize("person", ["ada", "rosa"])
@pytest.mark.parametrize("run", ["team", "crowd"])
def test_it_is_accessible_and_fits_a_phone_in_light_and_dark(
    audited: dict[str, str], visit: Visit, run: str, person: str
) -> None:
    page = opened(visit, audited[run], person)
    for summary in page.locator("#stops summary").all():
        summary.click()
    assert violations(page) == []
    page.emulate_media(color_scheme="dark")
    assert violations(page, *COLOURS) == []
    page.set_viewport_size({"width": PHONE, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert violations(page, "scrollable-region-focusable", "target-size") == []


@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize(("run", "agents"), [("team", 8), ("crowd", 40)])
def test_its_picture_can_be_read(
    audited: dict[str, str], visit: Visit, run: str, agents: int, width: int
) -> None:
    page = opened(visit, audited[run], width=width)
    found: list[tuple[Edges, Edges]] = page.evaluate(BOXES)
    assert len(found) == agents
    for (left, top, right, bottom), label in found:
        assert left <= label[0]
        assert label[2] <= right
        assert top <= label[1]
        assert label[3] <= bottom
        assert label[3] - label[1] >= 11  # what is smaller nobody reads
    assert [pair for pair in combinations([box for box, _ in found], 2) if overlap(*pair)] == []
    drawing = page.locator(".topo").evaluate(
        "svg => (({left, right}) => [left, right])(svg.getBoundingClientRect())"
    )
    assert min(box[0] for box, _ in found) >= drawing[0]
    assert max(box[2] for box, _ in found) <= drawing[1]


def overlap(one: Edges, other: Edges) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def test_its_matrix_keeps_the_names_of_its_rows_in_sight(audited: dict[str, str], visit: Visit) -> None:
    page = opened(visit, audited["crowd"], width=WIDE)
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDE  # it scrolls, and not its page
    page.set_viewport_size({"width": PHONE, "height": 844})
    matrix = page.get_by_role("group", name="Matrix, scrollable")
    matrix.evaluate("box => box.scrollTo(box.scrollWidth, 0)")
    heading = page.locator(".mx tbody th").first.bounding_box()
    frame = matrix.bounding_box()
    assert heading is not None
    assert frame is not None
    assert heading["x"] >= frame["x"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_its_forms_are_all_reached_with_the_keyboard(
    audited: dict[str, str], visit: Visit, theme: str
) -> None:
    page = opened(visit, audited["team"], theme=theme)
    page.locator("#stops summary").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Until (UTC)").wait_for()
    names = page.locator(CONTROLS).evaluate_all(
        "all => all.map((each, number) => (each.dataset.reached = number))"
    )
    assert len(names) >= 10
    page.locator("h1").click()
    reached = set()
    for _ in range(400):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement === document.body"):
            break
        number = page.evaluate("document.activeElement.dataset.reached ?? null")
        if number is not None:
            assert page.evaluate(FOCUS_IS_SEEN), page.evaluate(FOCUSED)
            reached.add(int(number))
    assert reached == set(names)


def test_it_takes_a_recovery_and_a_route_also_without_scripts(audited: dict[str, str], visit: Visit) -> None:
    for number, scripts in enumerate((True, False)):
        page = opened(visit, audited["acted"], scripts=scripts)
        card = page.locator("article.op").filter(has_text="Redeliver if idempotent").nth(number)
        press(card.get_by_role("button", name="Redeliver"))
        assert "Decided, within the bounds" in page.locator("#messages").inner_text()
        card = page.locator("article.op").filter(has_text="Redeliver if idempotent").nth(number)
        assert "Redeliver, attempt 1 of 3" in card.inner_text()
    page.locator("#stops summary").click()
    page.get_by_label("Who decides").select_option("desk-lead")
    page.get_by_label("Until (UTC)").fill("2099-01-01T10:00")
    page.get_by_label("Resume token").fill("CONTENT-MARKER-7f3a")
    press(page.get_by_role("button", name="Route the approval"))
    assert "Routed. It is waiting now" in page.locator("#messages").inner_text()
    assert page.locator("#stops tbody td:nth-child(3) .badge").first.inner_text() == "Waiting"
    assert "CONTENT-MARKER-7f3a" not in page.content()


def test_a_reviewer_reads_the_same_and_is_offered_nothing_to_decide(
    audited: dict[str, str], visit: Visit
) -> None:
    page = opened(visit, audited["team"], "rosa")
    assert lanes(page) == COLUMNS
    assert page.locator("main form").count() == 0
