"""The whole job in a real browser, by clicking, on pages that move by themselves."""

from collections.abc import Iterator

import pytest

from debugger.demo import walk as steps
from debugger.demo.walker import Walk
from tests.browser.journey import STAGES, Journey, press, tracks
from tests.browser.pictures import keep_picture
from tests.browser.visits import Visit, violations, walk_to
from tests.worlds import DemoProcess


def test_it_walks_from_a_failed_run_to_a_verified_branch_while_the_page_moves_by_itself(
    journey: Journey,
) -> None:
    assert journey.stages == STAGES
    assert ("Sealed", "False success") in journey.moved
    assert journey.moved[-1] == ("Sealed", "Verified")
    assert journey.visit.strange == []


def test_it_shows_both_tracks_of_the_branch_on_its_timeline_and_in_the_lists(
    journey: Journey, visit: Visit
) -> None:
    page = visit("rosa")
    page.goto(f"/runs/{journey.branch}/")
    assert tracks(page) == ("Sealed", "Verified")
    for path in ("/branches/", f"/runs/{journey.demo.run}/"):
        page.goto(path)
        row = page.get_by_role("row").filter(has=page.locator(f'a[href*="{journey.branch}"]'))
        assert row.locator(".badge").all_inner_texts() == ["Sealed", "Verified"]
    keep_picture(page, "timeline")


def test_it_lets_a_reviewer_compare_siblings_and_write_a_conclusion(
    journey: Journey, unsettled: Walk, visit: Visit
) -> None:
    page = visit("rosa")
    page.goto(f"/branches/{journey.branch}/")
    press(page.locator("a[data-key=c]"))
    assert page.get_by_role("columnheader").filter(has_text="(this)").inner_text().startswith("b1")
    assert page.locator("table.cmp td").get_by_text("Verified").count() == 1
    keep_picture(page, "compare")
    press(page.get_by_role("link", name="Only differences"))
    assert page.get_by_role("link", name="Show all rows").is_visible()
    page.get_by_label("The hypothesis is").select_option("supported")
    page.get_by_label("Preferred branch").select_option(label="b1")
    press(page.get_by_role("button", name="Conclude"))
    assert "The conclusion is written." in page.locator("#messages").inner_text()
    assert "supported, b1 preferred" in page.locator("section.conclude header").inner_text()


def test_it_refuses_a_conclusion_that_rests_on_a_branch_nobody_verified(
    unsettled: Walk, visit: Visit
) -> None:
    page = visit("rosa")
    page.goto(f"/runs/{unsettled.run}/compare/")
    page.get_by_label("The hypothesis is").select_option("supported")
    page.get_by_label("Preferred branch").select_option(label=f"b{unsettled.verdict()['number']}")
    press(page.get_by_role("button", name="Conclude"))
    assert "needs a branch that its destination verified" in page.locator("#messages").inner_text()


@pytest.fixture
def settled(demo: DemoProcess, journey: Journey) -> Iterator[Walk]:
    """A branch of this test's own, ready to be asked for."""
    with walk_to(demo, steps._fork, steps._state, steps._effects) as walk:
        yield walk


def test_it_refuses_a_decision_on_what_is_no_longer_shown(settled: Walk, visit: Visit) -> None:
    visit.expects(409)
    page = visit("grace")
    page.goto(f"/approvals/{steps._ask(settled)}/")
    steps._edit(settled, edit_class="change_plan")
    before = receipts(settled)
    with page.expect_navigation() as answered:
        page.get_by_role("button", name="Approve as shown").click()
    assert answered.value.status == 409
    assert "Refused: the branch is no longer what you were shown." in page.get_by_role("alert").inner_text()
    assert receipts(settled) == before
    assert settled.verdict()["status"] == "needs_approval"


def test_it_refuses_to_resume_what_is_no_longer_shown(settled: Walk, visit: Visit) -> None:
    visit.expects(409)
    steps._approve(settled, steps._ask(settled))
    page = visit("ada")
    page.goto(f"/branches/{settled.branch}/")
    assert tracks(page) == ("Ready to resume", "No receipt")
    steps._edit(settled, edit_class="change_plan")
    steps._approve(settled, steps._ask(settled))
    before = receipts(settled)
    with page.expect_navigation() as answered:
        page.get_by_role("button", name="Resume branch").click()
    assert answered.value.status == 409
    assert page.get_by_role("heading", level=1).inner_text() == "The branch is no longer what you were shown"
    assert page.get_by_role("alert").locator("tbody tr").count() >= 1
    assert violations(page) == []
    assert receipts(settled) == before
    assert settled.verdict()["status"] == "ready_to_resume"


def receipts(walk: Walk) -> str:
    """Return the branch's whole chain, byte by byte."""
    return str(walk.api.get(f"/runs/{walk.branch}/receipts").raise_for_status().text)
