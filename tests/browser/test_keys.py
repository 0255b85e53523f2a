"""The keyboard: everything is reached with it, and no key ever acts by itself."""

import re
from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TooLate

from debugger.demo.walker import Walk
from tests.browser.journey import Journey
from tests.browser.visits import Visit

# The search field's ring is drawn round its form.
FOCUS_IS_SEEN = """() => {
  const isOutlined = (element) => {
    const style = getComputedStyle(element);
    return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  };
  const focused = document.activeElement;
  return isOutlined(focused) || (focused.matches("#find") && isOutlined(focused.closest("form")));
}"""
FOCUSED = "() => document.activeElement.innerText.trim() || document.activeElement.id"
# Each with the page it is for, and what must have happened; the help page lists exactly these.
KEYS = {
    "Anywhere": ["/", "g r", "g a", "?"],
    "In a list": ["j", "k", "Enter"],
    "On a timeline": ["n", "x", "f"],
    "On a branch": ["e", "d", "c", "r", "[", "]"],
    "On a comparison": ["o"],
}


def press(page: Page, keys: str) -> None:
    for key in keys.split():
        page.keyboard.press(key)


def leads_to(path: str) -> Callable[[str], bool]:
    """An address with exactly this path: a pattern such as `**/` would hold on every page."""
    return lambda url: urlsplit(url).path == path


def press_until(page: Page, keys: str, path: str) -> None:
    """Press a sequence that a slow machine may stretch beyond the moment for which the first key counts."""
    for _ in range(12):
        press(page, keys)
        try:
            page.wait_for_url(leads_to(path), timeout=5_000)
        except TooLate:
            continue
        return
    raise AssertionError(f"{keys} did not lead to {path}")


def has_focus(page: Page, selector: str) -> bool:
    return bool(page.locator(selector).evaluate("element => element === document.activeElement"))


def gets_focus(page: Page, selector: str) -> bool:
    """Whether it has the focus in the end: a browser moves it on a moment after a link led there."""
    page.wait_for_function(
        "selector => document.querySelector(selector) === document.activeElement", arg=selector
    )
    return has_focus(page, selector)


def test_its_help_lists_the_keys_that_are_tested_here(visit: Visit) -> None:
    page = visit("ada")
    page.goto("/help/")
    listed = {
        section.locator("h2").inner_text(): section.locator("kbd").all_inner_texts()
        for section in page.locator(".keys section").all()
    }
    assert listed == KEYS


def test_its_skip_link_comes_first_is_seen_and_leads_past_the_navigation(visit: Visit) -> None:
    page = visit("ada")
    page.goto("/")
    page.keyboard.press("Tab")
    assert has_focus(page, "a.skip")
    box = page.locator("a.skip").bounding_box()
    assert box is not None
    assert box["y"] >= 0
    page.keyboard.press("Enter")
    assert gets_focus(page, "#main")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_its_focus_is_always_seen_on_the_way_through_a_branch_page(unsettled: Walk, visit: Visit) -> None:
    for theme in ("light", "dark"):
        page = visit("ada", theme=theme)
        page.goto(f"/branches/{unsettled.branch}/")
        stops = page.locator("a[href]:visible, button:visible, summary:visible, input:visible").count()
        for _ in range(stops):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement === document.body"):
                break
            assert page.evaluate(FOCUS_IS_SEEN), page.evaluate(FOCUSED)


def test_its_keys_go_anywhere(visit: Visit) -> None:
    page = visit("grace")
    page.goto("/help/")
    for keys, path in (("g a", "/approvals/"), ("g r", "/"), ("?", "/help/")):
        press_until(page, keys, path)
    press(page, "/")
    assert gets_focus(page, "#find")
    page.keyboard.type("g a ? j")
    assert page.locator("#find").input_value() == "g a ? j"
    assert page.url.endswith("/help/")
    assert visit.posted == []


def test_its_keys_walk_along_rows_and_enter_opens_one(
    journey: Journey, unsettled: Walk, visit: Visit
) -> None:
    page = visit("ada")
    page.goto("/branches/")
    rows = page.locator("[data-row]")
    press(page, "j j")
    assert rows.nth(1).evaluate("row => row === document.activeElement")
    press(page, "k")
    assert rows.nth(0).evaluate("row => row === document.activeElement")
    target = rows.nth(0).get_attribute("href")
    press(page, "Enter")
    page.wait_for_url(f"**{target}")


def test_its_keys_jump_along_a_timeline(journey: Journey, visit: Visit) -> None:
    page = visit("ada")
    page.goto(f"/runs/{journey.demo.run}/?at=1")
    seen = []
    for key in ("n", "x", "f"):
        with page.expect_response(lambda answer: "/next/" in answer.url):
            press(page, key)
        page.locator("#window tr.here").wait_for()
        page.wait_for_function("() => !document.querySelector('.htmx-request')")
        seen.append(page.locator("#window").get_attribute("data-mark"))
    assert None not in seen
    assert len(set(seen)) == 3
    assert visit.posted == []


def test_its_keys_on_a_branch_only_focus_or_follow(journey: Journey, unsettled: Walk, visit: Visit) -> None:
    page = visit("ada")
    path = f"/branches/{unsettled.branch}/"
    page.goto(path)
    press(page, "r")
    assert gets_focus(page, "[data-key=r]")
    press(page, "e")
    page.wait_for_url("**#gate-3")
    press(page, "j")
    assert page.evaluate("document.activeElement.matches('[data-gate]')")
    another = re.compile(rf".*/branches/(?!{unsettled.branch})[^/]+/")
    for key, url in (("d", "**/configuration/"), ("c", "**/compare/**"), ("[", another)):
        page.goto(path)
        press(page, key)
        page.wait_for_url(url)
    press(page, "]")
    page.wait_for_url(leads_to(path))
    assert visit.posted == []


def test_its_keys_neither_resume_nor_approve_where_that_is_possible(
    asked: tuple[Walk, str], visit: Visit
) -> None:
    walk, request = asked
    ada, grace = visit("ada"), visit("grace")
    ada.goto(f"/branches/{walk.branch}/")
    grace.goto(f"/approvals/{request}/")
    for page in (ada, grace):
        for key in ("r", "e", "j", "k", "n", "x", "f", "o", "y", "a"):
            press(page, key)
    assert visit.posted == []
    assert walk.verdict()["status"] == "needs_approval"


def test_its_key_on_a_comparison_shows_only_differences(
    journey: Journey, unsettled: Walk, visit: Visit
) -> None:
    page = visit("rosa")
    page.goto(f"/runs/{journey.demo.run}/compare/")
    press(page, "o")
    page.wait_for_url("**only=differences**")
    press(page, "o")
    page.wait_for_url(lambda url: "only=" not in url)


def test_its_keys_are_off_while_typing_and_where_a_person_switched_them_off(
    unsettled: Walk, visit: Visit
) -> None:
    page = visit("ada")
    page.goto(f"/branches/{unsettled.branch}/configuration/")
    page.get_by_label("New value").fill("")
    page.keyboard.type("g r ? / d c")
    assert page.get_by_label("New value").input_value() == "g r ? / d c"
    page.goto("/help/")
    page.get_by_label("Shortcut keys on this device").uncheck()
    press(page, "g r")
    press(page, "/")
    assert page.url.endswith("/help/")
    assert not has_focus(page, "#find")
    page.get_by_label("Shortcut keys on this device").check()
    page.locator("h1").click()
    press(page, "/")
    assert gets_focus(page, "#find")
