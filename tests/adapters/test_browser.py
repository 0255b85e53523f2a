"""The browser probe in a real Chromium: what it sees of a real site, and what it tells apart."""

from pathlib import Path
from typing import Any

import pytest

from branches.evidence.domains import PART
from branches.ports import StateMeasurement
from debugger.adapters.probes import browser
from debugger.adapters.probes.browser import BrowserProbe
from tests.adapters import browsers
from tests.adapters.browsers import at_once
from tests.adapters.places import KEY, MARKER, Web
from tests.adapters.places_pages import HTML, Shop

pytestmark = browsers.needs_chromium
hurried = browsers.hurried
site = browsers.site
signed_in = browsers.signed_in
shop = browsers.shop


def drifted(before: StateMeasurement, after: StateMeasurement) -> set[str]:
    names = {KEY.digest(PART, name): name for name in BrowserProbe.part_names}
    assert set(before.parts) == set(after.parts) == set(names)
    return {names[part] for part in names if before.parts[part] != after.parts[part]}


def test_it_sees_a_signed_in_page_twice_alike_and_another_record_as_another(
    signed_in: StateMeasurement, shop: Shop
) -> None:
    first = signed_in
    assert (first.problem, first.reachable) == (None, True)
    assert first.facts == {"session": "signed_in", "viewport": "desktop", "path_reached": True}
    shop.save("abc", expires=2_100_000_000)  # the same session, which ends later
    shop.token = 2  # in a field that nobody sees
    assert shop.measured() == first
    shop.record = f"Order 7: refunded {MARKER}"
    changed = shop.measured()
    assert changed.facts == first.facts
    assert changed.fingerprint != first.fingerprint
    assert drifted(first, changed) == {"record"}
    assert MARKER not in repr((first, changed))


def test_it_sees_what_stands_in_a_records_field(signed_in: StateMeasurement, shop: Shop) -> None:
    shop.field = "two"
    assert drifted(signed_in, shop.measured()) == {"record"}


def test_it_tells_the_sessions_apart(signed_in: StateMeasurement, shop: Shop) -> None:
    shop.live = "another"
    expired = shop.measured()
    assert expired.facts == {"session": "expired", "viewport": "desktop", "path_reached": False}
    assert drifted(signed_in, expired) == {"path", "session", "record"}
    shop.save("another")
    renewed = shop.measured()
    assert renewed.facts["session"] == "signed_in"
    assert drifted(signed_in, renewed) == {"storage"}
    shop.saved.unlink()
    nobody = shop.measured(viewport="phone")
    assert nobody.facts == {"session": "anonymous", "viewport": "phone", "path_reached": False}
    assert drifted(expired, nobody) == {"session", "storage", "viewport"}


def test_it_goes_by_a_cookie_where_the_target_says_so(shop: Shop) -> None:
    old = shop.saved.with_name("old.json")
    shop.save("abc", expires=1_000_000_000)
    shop.saved.rename(old)
    shop.save("abc")
    valid, over = at_once(
        lambda: shop.measured(signed_in="cookie:session"),
        lambda: shop.measured(signed_in="cookie:session", storage_state=str(old)),
    )
    assert (valid.facts["session"], over.facts["session"]) == ("signed_in", "expired")


def test_it_waits_for_a_page_that_builds_itself_and_reads_it_when_it_is_still(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # with the waits that are really waited
    build = (
        "<script>setTimeout(() => document.body.innerHTML = '<p id=who></p><main>built</main>', 700)</script>"
    )
    shop.pages["/built"] = (200, HTML, f"<body>{build}</body>")
    restless = (
        "<p id=who></p><main></main><script>setInterval(() => document.querySelector('main').append('x'), 20)"
    )
    shop.pages["/restless"] = (200, HTML, f"{restless}</script>")
    first, again, found = at_once(
        *(lambda path=path: shop.measured(path) for path in ("/built", "/built", "/restless"))
    )
    assert first.facts["session"] == "signed_in"
    assert again == first
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "page_unsettled")


def test_it_takes_a_way_to_another_place_for_a_session_that_ended(shop: Shop) -> None:
    other = Web(lambda _: (200, [], MARKER.encode()))
    shop.pages["/orders/7"] = (302, [("Location", f"{other.url}/sign-in?nonce=1")], "")
    first = shop.measured()
    assert first.facts == {"session": "expired", "viewport": "desktop", "path_reached": False}
    shop.pages["/orders/7"] = (302, [("Location", f"{other.url}/sign-in?nonce=2")], "")
    assert shop.measured() == first
    assert other.paths == []
    other.close()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((500, [], ""), "server_error"),
        ((404, HTML, "gone"), "status_undeclared"),
        ((204, [], ""), "page_failed"),
        ((200, [("Content-Disposition", "attachment"), ("Content-Type", "x/y")], "x"), "page_failed"),
        ((200, HTML, "<script src=/broken></script><main>half</main>"), "page_incomplete"),
    ],
)
def test_it_knows_nothing_from(shop: Shop, answer: Any, problem: str) -> None:
    shop.pages = {"/orders/7": answer, "/broken": (503, [], "")}
    found = shop.measured()
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, problem)


@pytest.mark.parametrize("answer", [(403, HTML, "<p id=who></p>"), (401, [], "")])
def test_it_calls_a_refusal_an_expired_session(shop: Shop, answer: Any) -> None:
    shop.pages["/orders/7"] = answer
    assert shop.measured().facts == {"session": "expired", "viewport": "desktop", "path_reached": False}


def test_it_takes_a_site_that_is_gone_for_no_empty_page(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    shop.web.close()
    found = shop.measured()
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "no_connection")


def test_it_finds_a_page_by_a_name(shop: Shop) -> None:
    port = shop.web.server.server_address[1]
    shop.pages["/open"] = (200, HTML, "<p id=who></p><main>open</main>")
    found = shop.measured(url=f"http://localhost:{port}/open", allow=["127.0.0.0/8", "::1/128"])
    assert (found.problem, found.facts["path_reached"]) == (None, True)


@pytest.mark.parametrize(
    "options",
    [
        {"url": None},
        {"viewport": "watch"},
        {"viewport": {"width": 10, "height": 10}},
        {"viewport": {"width": True, "height": 300}},
        {"expected_path": "orders"},
        {"storage_state": 5},
        {"allow": "everything"},
    ],
)
def test_it_refuses_options_that_do_not_fit(shop: Shop, options: dict[str, Any]) -> None:
    assert shop.measured(**options).problem == "target_unfit"


@pytest.mark.parametrize("content", ["{", "[]", '{"cookies": [{"name": "x"}]}', '{"cookies": 5}'])
def test_it_takes_no_broken_session_for_none(shop: Shop, content: str) -> None:
    shop.saved.write_text(content)
    found = shop.measured()
    assert (found.fingerprint, found.problem) == (None, "storage_unreadable")


def test_it_says_where_there_is_no_browser(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shop.measured(chromium="/no/such/browser").problem == "browser_missing"
    monkeypatch.setattr(browser, "find_spec", lambda _: None)
    assert shop.measured().problem == "browser_missing"
