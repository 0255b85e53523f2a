"""The deployment destination and verifier against a site with a version, a health and a users' route."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from branches.ports import Answer, Baseline, Check, DestinationQuery, OutcomeVerifier, Question, Target
from debugger.adapters.destinations.deployment import DeploymentDestination, DeploymentVerifier
from tests.adapters.places import KEY, MARKER, Web, target
from tests.adapters.talks import OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.patience import ends

OURS = frozenset({OPERATION})
LONG = "4f" * 20


class Site:
    """What each of the three routes says."""

    def __init__(self) -> None:
        self.version: dict[str, Any] = {"version": "1.10.0", "key": OPERATION, "region": MARKER}
        self.health: tuple[int, bytes] = (200, b'{"ok": true}')
        self.page: tuple[int, bytes] = (200, b"<p>1.10.0</p>")
        self.status = 200
        self.web = Web(self.answer)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.path.startswith("/version"):
            return self.status, [], json.dumps(self.version).encode()
        status, body = self.health if request.path == "/health" else self.page
        return status, [], body

    def target(self, **changes: Any) -> Target:
        options = {
            "version_url": self.web.url + "/version",
            "version": "version",
            "operation_key": "key",
            "absent": [404],
            "health_url": self.web.url + "/health",
            "health_expected": {"ok": True},
            "user_url": self.web.url + "/",
            "user_version": "version",
            "user_shows_version": True,
            "expected": {"live": {"region": MARKER}, "any": {}},
            "allow": "loopback",
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.web.close()


def ask(place: Target, sent: str | None = None) -> Any:
    return DeploymentDestination().ask(place, Question(OPERATION, "deploy", sent))


def check(place: Target, base: str | None, keys: frozenset[str] = OURS, expected: str = "live") -> Any:
    return DeploymentVerifier().check(place, expected, base, keys)


def test_it_fulfils_its_ports() -> None:
    assert isinstance(DeploymentDestination(), DestinationQuery)
    assert isinstance(DeploymentVerifier(), OutcomeVerifier)
    assert DeploymentDestination.limits.endswith(".")


def test_what_the_operation_deployed_is_present_while_it_stands_there(site: Site) -> None:
    place = site.target(user_url=None)
    found = ask(place)
    assert (found.answer, found.version) == (Answer.PRESENT, "1.10.0")
    assert nothing_of(found, MARKER)
    site.version["key"] = OTHER
    later = ask(place)
    assert (later.answer, later.problem) == (Answer.UNKNOWN, "another_version")
    site.status = 404
    assert ask(place).problem == "nothing_deployed"


def test_it_knows_a_deployment_by_what_was_deployed(site: Site) -> None:
    place = site.target(operation_key=None, user_url=None, payload=["version"])
    sent = payload({"version": "1.10.0"}, "deploy")
    assert (ask(place, sent).answer, ask(place, sent).fingerprint) == (Answer.PRESENT, sent)
    assert ask(place, payload({"version": "1.9.0"}, "deploy")).problem == "another_version"
    assert ask(place).problem == "another_version"
    assert ask(site.target(operation_key=None, user_url=None)).problem == "target_unfit"


def test_a_deployment_with_an_address_of_its_own_can_be_absent_or_changed(site: Site) -> None:
    place = site.target(
        version_url=site.web.url + "/version/{operation_key}",
        operation_key=None,
        user_url=None,
        payload=["version"],
    )
    assert ask(place, payload({"version": "1.10.0"}, "deploy")).answer is Answer.PRESENT
    assert ask(place, payload({"version": "1.9.0"}, "deploy")).answer is Answer.CHANGED
    site.status = 404
    assert ask(place).answer is Answer.ABSENT
    assert ask(site.target(version_url=site.web.url + "/version/{operation_key}", absent=None)).problem == (
        "status_undeclared"
    )


def test_routes_that_show_two_versions_are_no_answer(site: Site) -> None:
    site.page = (200, b'{"version": "1.10.0"}')
    assert ask(site.target()).answer is Answer.PRESENT
    site.page = (200, b'{"version": "1.9.0"}')
    assert ask(site.target()).problem == "routes_disagree"
    site.page = (200, b"<html>")
    assert ask(site.target()).problem == "unparsable"


def test_it_passes_only_a_newer_version_that_is_healthy_and_shown(site: Site) -> None:
    verifier = DeploymentVerifier()
    assert verifier.baseline(site.target(), "live") == Baseline("1.10.0", reachable=True)
    passed = check(site.target(), "1.9.0")
    assert (passed.check, passed.fresh, passed.version) == (Check.PASSED, True, "1.10.0")
    assert check(site.target(), "1.9.0", expected="any").fresh is True
    assert check(site.target(), "1.10.0").problem == "none_newer"
    assert check(site.target(), "1.11.0").problem == "none_newer"
    theirs = check(site.target(), "1.9.0", frozenset({OTHER}))
    assert (theirs.check, theirs.fresh, theirs.problem) == (Check.FAILED, False, "another_operation")
    site.status = 404
    assert verifier.baseline(site.target(), "live") == Baseline(None, reachable=True)
    assert check(site.target(), None).problem == "nothing_there"


@pytest.mark.parametrize(
    ("health", "page", "region", "difference"),
    [
        ((503, b"{}"), (200, b"1.10.0"), MARKER, ("health",)),
        ((200, b'{"ok": false}'), (200, b"1.10.0"), MARKER, ("health",)),
        ((200, b'{"ok": 1}'), (200, b"1.10.0"), MARKER, ("health",)),
        ((302, b""), (200, b"1.10.0"), MARKER, ("health",)),
        ((200, b'{"ok": true}'), (500, b"1.10.0"), MARKER, ("user_facing",)),
        ((200, b'{"ok": true}'), (200, b"1.9.0"), MARKER, ("user_facing",)),
        ((503, b""), (200, b""), "x", ("health", "user_facing", KEY.digest("name", "region"))),
    ],
)
def test_it_names_the_route_that_says_no(
    site: Site, health: tuple[int, bytes], page: tuple[int, bytes], region: str, difference: tuple[str, ...]
) -> None:
    site.health, site.page, site.version["region"] = health, page, region
    failed = check(site.target(), "1.9.0")
    assert (failed.check, failed.problem, failed.difference) == (Check.FAILED, "not_the_expected", difference)


def test_versions_without_order_count_only_under_the_run_s_own_key(site: Site) -> None:
    site.version["version"] = LONG
    site.page = (200, LONG.encode())
    base = DeploymentVerifier().baseline(site.target(), "live").version
    assert base is not None
    assert (len(base), LONG.startswith(base)) == (32, False)
    assert check(site.target(), base).problem == "none_newer"
    assert check(site.target(), "0" * 32).fresh is True
    assert check(site.target(operation_key=None), "0" * 32).problem == "version_unordered"


def test_it_passes_nothing_that_was_not_declared_or_says_no_version(site: Site) -> None:
    assert check(site.target(), None, expected="memo").problem == "target_unfit"
    assert check(site.target(operation_key=None), None, expected="any").problem == "target_unfit"
    site.version.pop("version")
    assert check(site.target(), None).problem == "version_unreadable"
    assert DeploymentVerifier().baseline(site.target(), "live").problem == "version_unreadable"
    site.web.close()
    assert check(site.target(), None).problem == "no_connection"
    assert ask(site.target()).problem == "no_connection"


@pytest.mark.parametrize("talk", [says(b""), says(b"garbage"), stalls(), stalls(b"HTTP/1.1 200"), drips()])
def test_a_health_route_that_does_not_answer_is_unreachable_and_never_healthy(
    site: Site, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)
    with server(talk) as port, ends():
        found = check(site.target(health_url=f"http://127.0.0.1:{port}/"), "1.9.0")
    assert (found.check, found.fresh) == (Check.UNREACHABLE, False)
    assert found.problem in {"timeout", "no_answer"}
