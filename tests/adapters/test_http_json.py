"""The destination query and the outcome verifier against a real HTTP server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from branches import registry
from branches.ports import Answer, Baseline, Check, DestinationQuery, OutcomeVerifier, Question, Target
from debugger.adapters.destinations.http_json import HttpJsonDestination, HttpJsonVerifier
from tests.adapters.places import KEY, MARKER, Web, target

OPERATION = "hmac-sha256:0badc0de:" + "1" * 64 + "+br_abcdefghijklmnopqrstuvwx"
KEPT = {"ticket": {"subject": MARKER, "lines": [{"sum": 0.5}]}, "id": 7, "version": 3}


def payload(arguments: dict[str, Any], tool: str = "create_ticket") -> str:
    """The digest as the recorder makes it."""
    text = json.dumps(arguments, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return KEY.digest("payload", f"{tool}\0{text}")


class Desk:
    def __init__(self) -> None:
        self.status, self.headers, self.body = 200, [], json.dumps(KEPT).encode()
        self.web = Web(lambda _: (self.status, self.headers, self.body))

    def say(self, value: Any, status: int = 200) -> None:
        self.status, self.body = status, json.dumps(value).encode()

    def destination(self, **changes: Any) -> Target:
        options = {
            "url": self.web.url + "/tickets/{operation_key}",
            "absent": [404],
            "payload": ["subject", "sum"],
            "fields": {"subject": "ticket.subject", "sum": "ticket.lines.0.sum"},
            "version": "version",
            "ref": "id",
            "allow": "loopback",
        }
        return target(**{name: value for name, value in {**options, **changes}.items() if value is not None})

    def reports(self, **changes: Any) -> Target:
        options = {
            "latest_url": self.web.url + "/reports/latest",
            "version": "version",
            "expected": {"report": {"kind": "report", "final": True}},
            "artifact": ["text"],
            "absent": [404],
            "allow": "loopback",
        }
        return target(**{**options, **changes})


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.web.close()


def ask(desk: Desk, payload_sent: str | None = None, **changes: Any) -> Any:
    question = Question(OPERATION, "create_ticket", payload_sent)
    return HttpJsonDestination().ask(desk.destination(**changes), question)


def test_it_fulfils_its_ports() -> None:
    assert isinstance(registry.find("destinations", "http_json"), DestinationQuery)
    assert isinstance(registry.find("verifiers", "http_json"), OutcomeVerifier)


def test_it_finds_an_operation_by_its_key_and_rebuilds_the_payload(desk: Desk) -> None:
    sent = payload({"subject": MARKER, "sum": 0.5})
    found = ask(desk, sent)
    assert (found.answer, found.fingerprint, found.version, found.problem) == (
        Answer.PRESENT,
        sent,
        "3",
        None,
    )
    assert found.ref == KEY.digest("ref", "7")
    assert desk.web.paths == ["/tickets/" + OPERATION.replace(":", "%3A").replace("+", "%2B")]
    assert MARKER not in repr(found)


def test_it_sees_that_something_else_is_kept_under_the_key(desk: Desk) -> None:
    assert ask(desk, payload({"subject": "other", "sum": 0.5})).answer is Answer.CHANGED
    assert ask(desk, payload({"subject": MARKER, "sum": 0.5}, "other_tool")).answer is Answer.CHANGED


def test_it_reads_the_payload_of_the_tool_that_was_called(desk: Desk) -> None:
    by_tool = {"create_ticket": ["subject"], "other_tool": ["sum"]}
    assert ask(desk, payload({"subject": MARKER}), payload=by_tool).answer is Answer.PRESENT
    assert ask(desk, payload({"sum": 0.5}), payload=by_tool).answer is Answer.CHANGED


def test_it_takes_absence_only_from_a_status_that_is_declared_to_mean_it(desk: Desk) -> None:
    desk.say({}, 404)
    assert ask(desk).answer is Answer.ABSENT
    unsure = ask(desk, absent=None)
    assert (unsure.answer, unsure.problem) == (Answer.UNKNOWN, "status_undeclared")


@pytest.mark.parametrize(
    ("status", "body", "problem"),
    [
        (500, b"{}", "server_error"),
        (503, b"", "server_error"),
        (429, b"{}", "status_undeclared"),
        (401, b"{}", "not_authorized"),
        (302, b"", "redirected"),
        (200, b"<html>", "unparsable"),
        (200, b"", "unparsable"),
        (200, b"[" * 60_000, "unparsable"),
        (200, b"{}", "field_missing"),
        (200, b"null", "field_missing"),
        (200, b"[]", "field_missing"),
    ],
)
def test_it_says_unknown_for_what_proves_nothing(desk: Desk, status: int, body: bytes, problem: str) -> None:
    desk.status, desk.body = status, body
    found = ask(desk, "hmac-sha256:0badc0de:" + "0" * 64)
    assert (found.answer, found.problem, found.fingerprint) == (Answer.UNKNOWN, problem, None)


def test_it_says_unknown_of_a_desk_that_is_gone_or_may_not_be_asked(desk: Desk) -> None:
    assert ask(desk, allow=None).problem == "address_refused"
    desk.web.close()
    found = ask(desk)
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "no_connection")


@pytest.mark.parametrize(
    "options",
    [
        {"url": None},
        {"url": "http://127.0.0.1/x"},
        {"payload": 3},
        {"fields": []},
        {"found": ["a"]},
        {"allow": 1},
    ],
)
def test_it_says_unknown_where_its_target_is_unfit(desk: Desk, options: dict[str, Any]) -> None:
    found = ask(desk, **options)
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "target_unfit")


def test_it_sends_a_secret_from_the_environment_and_never_in_clear(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(desk, auth_env="DESK_TOKEN").problem == "secret_missing"
    monkeypatch.setenv("DESK_TOKEN", "s3cret")
    assert ask(desk, auth_env="DESK_TOKEN").answer is Answer.PRESENT
    assert desk.web.seen[-1]["Authorization"] == "Bearer s3cret"
    assert ask(desk, auth_env="DESK_TOKEN", allow=["127.0.0.0/8"]).problem == "secret_in_clear"
    assert len(desk.web.seen) == 1


def check(desk: Desk, baseline: str | None, expected: str = "report", **changes: Any) -> Any:
    return HttpJsonVerifier().check(desk.reports(**changes), expected, baseline)


REPORT = {"kind": "report", "final": True, "version": 5, "text": MARKER}


def test_it_passes_only_what_is_newer_than_the_baseline_and_fits(desk: Desk) -> None:
    desk.say(REPORT)
    passed = check(desk, "4")
    assert (passed.check, passed.fresh, passed.version, passed.problem) == (Check.PASSED, True, "5", None)
    assert passed.artifact == KEY.digest("content", json.dumps({"text": MARKER}, separators=(",", ":")))
    assert check(desk, None).check is Check.PASSED
    for baseline in ("5", "6", "10"):
        old = check(desk, baseline)
        assert (old.check, old.fresh, old.problem) == (Check.FAILED, False, "none_newer")


@pytest.mark.parametrize("changed", [{"kind": "memo"}, {"final": 1}, {"final": None}, {"final": "true"}])
def test_it_fails_what_is_newer_and_something_else(desk: Desk, changed: dict[str, Any]) -> None:
    desk.say({**REPORT, **changed})
    found = check(desk, "4")
    assert (found.check, found.fresh, found.problem) == (Check.FAILED, False, "not_the_expected")


@pytest.mark.parametrize(
    ("version", "baseline", "newer"),
    [
        (10, "9", True),
        ("1.10", "1.9", True),
        ("1.9", "1.10", False),
        ("2", "1.9", True),
        (True, "0", None),
        ("b", "a", None),
        ("2026-11-30", "2026-11-29", None),
        (None, "1", None),
        ("x" * 40, "1", None),
        (-1, "0", None),
    ],
)
def test_it_orders_versions_as_numbers_or_not_at_all(
    desk: Desk, version: Any, baseline: str, newer: bool | None
) -> None:
    desk.say({**REPORT, "version": version})
    expected = {True: Check.PASSED, False: Check.FAILED, None: Check.UNREACHABLE}[newer]
    assert check(desk, baseline).check is expected


def test_it_takes_a_baseline(desk: Desk) -> None:
    verifier = HttpJsonVerifier()
    desk.say(REPORT)
    assert verifier.baseline(desk.reports(), "report") == Baseline("5", reachable=True)
    desk.say({}, 404)
    assert verifier.baseline(desk.reports(), "report") == Baseline(None, reachable=True)
    assert check(desk, None).check is Check.FAILED
    desk.say({"kind": "report"})
    assert verifier.baseline(desk.reports(), "report").reachable is False
    desk.say({}, 500)
    assert verifier.baseline(desk.reports(), "report") == Baseline(None, False, "server_error")


def test_it_passes_nothing_that_is_not_there_or_was_not_declared(desk: Desk) -> None:
    desk.say(REPORT)
    undeclared = check(desk, "4", expected="memo")
    assert (undeclared.check, undeclared.problem) == (Check.UNREACHABLE, "target_unfit")
    assert check(desk, "4", artifact=["absent"]).check is Check.UNREACHABLE
    desk.web.close()
    gone = check(desk, "4")
    assert (gone.check, gone.fresh, gone.problem) == (Check.UNREACHABLE, False, "no_connection")
