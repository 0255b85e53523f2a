"""The state verifier against a real HTTP server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from branches.ports import Baseline, Check, OutcomeVerifier, Target
from debugger.adapters.destinations.http_state import HttpStateVerifier
from tests.adapters.places import KEY, MARKER, Web, target
from tests.adapters.talks import OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.patience import ends


class Resource:
    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        self.web = Web(lambda _: (self.status, [], self.body))

    def say(self, value: Any, status: int = 200) -> None:
        self.status, self.body = status, json.dumps(value).encode()

    def target(self, **changes: Any) -> Target:
        options = {
            "url": self.web.url + "/order/7",
            "expected": {
                "paid": {"values": {"state": "paid", "by.name": MARKER}},
                "gone": {"status": [404, 410]},
            },
            "allow": "loopback",
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})


@pytest.fixture
def resource() -> Iterator[Resource]:
    made = Resource()
    yield made
    made.web.close()


PAID = {"state": "paid", "by": {"name": MARKER}, "version": 5, "key": OPERATION}


def check(place: Target, base: str | None, *keys: str, expected: str = "paid") -> Any:
    return HttpStateVerifier().check(place, expected, base, frozenset(keys))


def test_it_fulfils_its_port() -> None:
    assert isinstance(HttpStateVerifier(), OutcomeVerifier)
    assert HttpStateVerifier.limits.endswith(".")


def test_it_passes_a_state_that_was_not_there_before(resource: Resource) -> None:
    resource.say({"state": "open"})
    base = HttpStateVerifier().baseline(resource.target(), "paid")
    assert (base.reachable, len(base.version or "")) == (True, 32)
    assert check(resource.target(), base.version).problem == "none_newer"
    resource.say(PAID)
    passed = check(resource.target(), base.version)
    assert (passed.check, passed.fresh) == (Check.PASSED, True)
    assert nothing_of(passed, MARKER)
    again = HttpStateVerifier().baseline(resource.target(), "paid").version
    assert check(resource.target(), again).problem == "none_newer"


def test_what_is_not_asked_for_makes_no_state_new(resource: Resource) -> None:
    resource.say(PAID)
    base = HttpStateVerifier().baseline(resource.target(), "paid").version
    resource.say({**PAID, "seen": 8})
    assert check(resource.target(), base).problem == "none_newer"


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        ({"state": "open"}, ["state"]),
        ({"by": {}}, ["by.name"]),
        ({"state": 1, "by": None}, ["state", "by.name"]),
    ],
)
def test_it_names_the_values_that_differ(
    resource: Resource, changed: dict[str, Any], names: list[str]
) -> None:
    resource.say({**PAID, **changed})
    failed = check(resource.target(), "0" * 32)
    assert (failed.check, failed.problem) == (Check.FAILED, "not_the_expected")
    assert failed.difference == tuple(sorted(KEY.digest("name", name) for name in names))


def test_it_passes_a_resource_that_has_gone(resource: Resource) -> None:
    resource.say(PAID)
    base = HttpStateVerifier().baseline(resource.target(), "gone").version
    assert check(resource.target(), base, expected="gone").difference == ("status",)
    resource.say("gone", 410)
    assert check(resource.target(), base, expected="gone").fresh is True
    assert check(resource.target(), None).difference == ("status",)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (500, "server_error"),
        (503, "server_error"),
        (401, "not_authorized"),
        (302, "redirected"),
        (429, "status_undeclared"),
    ],
)
def test_a_status_that_says_nothing_of_the_resource_is_unreachable(
    resource: Resource, status: int, problem: str
) -> None:
    resource.say(PAID, status)
    found = check(resource.target(), None)
    assert (found.check, found.problem) == (Check.UNREACHABLE, problem)
    assert HttpStateVerifier().baseline(resource.target(), "gone") == Baseline(None, False, problem)


def test_with_a_version_a_newer_one_must_have_come(resource: Resource) -> None:
    place = resource.target(version="version")
    resource.say({}, 404)
    assert HttpStateVerifier().baseline(place, "paid") == Baseline(None, reachable=True)
    resource.say(PAID)
    assert HttpStateVerifier().baseline(place, "paid") == Baseline("5", reachable=True)
    assert check(place, "5").problem == "none_newer"
    assert check(place, "4").fresh is True
    assert check(place, "x").problem == "version_unordered"
    resource.say({**PAID, "version": None})
    assert check(place, "4").problem == "version_unreadable"
    resource.say({}, 404)
    assert (check(place, "4").check, check(place, "4").difference) == (Check.FAILED, ("status",))


def test_a_state_under_another_key_is_not_this_run_s(resource: Resource) -> None:
    resource.say(PAID)
    place = resource.target(operation_key="key")
    assert check(place, None, OPERATION).fresh is True
    theirs = check(place, None, OTHER)
    assert (theirs.check, theirs.fresh, theirs.problem) == (Check.FAILED, False, "another_operation")
    assert check(place, None).problem == "another_operation"


@pytest.mark.parametrize(
    "terms", [{}, {"colour": "red"}, {"values": []}, {"status": ["a"]}, {"status": 200}, None]
)
def test_it_passes_nothing_by_terms_it_does_not_know(resource: Resource, terms: Any) -> None:
    found = check(resource.target(expected={"paid": terms}), None)
    assert (found.check, found.problem) == (Check.UNREACHABLE, "target_unfit")


def test_what_is_no_json_is_unreachable_where_values_are_wanted(resource: Resource) -> None:
    resource.body = b"<html>"
    assert check(resource.target(), None).problem == "unparsable"
    plain = resource.target(expected={"paid": {"status": [200]}})
    assert check(plain, None).check is Check.PASSED


@pytest.mark.parametrize("talk", [says(b""), says(b"garbage"), stalls(), drips(b"HTTP/1.1 200 OK\r\n\r\n{")])
def test_a_server_that_breaks_off_or_stalls_is_unreachable(
    resource: Resource, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    with server(talk) as port, ends():
        found = check(resource.target(url=f"http://127.0.0.1:{port}/"), None)
    assert (found.check, found.problem in {"timeout", "no_answer"}) == (Check.UNREACHABLE, True)
