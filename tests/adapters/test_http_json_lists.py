"""What http_json does beyond one answer: lists, keys that artifacts carry, and what arrived at all."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from branches.ports import Answer, Arrival, Check, ListsArrivals, OutcomeVerifier, Question, Target
from debugger.adapters.destinations import json_list
from debugger.adapters.destinations.http_json import HttpJsonDestination, HttpJsonVerifier
from debugger.adapters.destinations.json_list import moment_of
from debugger.adapters.destinations.keys_in_names import key_in_name, key_of, label_of, named
from tests.adapters.places import KEY, MARKER, NOW, Web, target
from tests.adapters.talks import OPERATION, OTHER, drips, hurry, nothing_of, server, stalls
from tests.patience import ends

MARKED = f"{MARKER}\n\noperation-key: {OPERATION}\n"


class Desk:
    """Answers every path with JSON that a test sets, and lists with pages of two."""

    def __init__(self) -> None:
        self.value: Any = []
        self.status = 200
        self.web = Web(self.answer)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        asked = parse_qs(urlsplit(request.path).query)
        value = self.value
        if "page" in asked:
            begin = (int(asked["page"][0]) - 1) * 2
            value = value[begin : begin + 2]
        elif "cursor" in asked or request.path.startswith("/cursor"):
            begin = int(asked.get("cursor", ["0"])[0] or 0)
            following = str(begin + 2) if begin + 2 < len(value) else None
            value = {"rows": value[begin : begin + 2], "next": following}
        return self.status, [], json.dumps(value).encode()

    def destination(self, **changes: Any) -> Target:
        options = {
            "url": self.web.url + "/issues?label={operation_label}",
            "items": ".",
            "operation_key": "body",
            "ref": "id",
            "allow": "loopback",
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})

    def listed(self, **changes: Any) -> Target:
        declared = {
            "url": self.web.url + "/issues?page={page}&since={since}",
            "operation_key": "body",
            "at": "at",
            "ref": "id",
            **changes,
        }
        return self.destination(list={name: value for name, value in declared.items() if value is not None})

    def reports(self, **changes: Any) -> Target:
        options = {
            "latest_url": self.web.url + "/reports",
            "version": "version",
            "operation_key": "key",
            "expected": {"report": {"kind": "report", "final": True}},
            "allow": "loopback",
            **changes,
        }
        return target(**options)


@pytest.fixture
def desk() -> Iterator[Desk]:
    made = Desk()
    yield made
    made.web.close()


def ask(place: Target) -> Any:
    return HttpJsonDestination().ask(place, Question(OPERATION, "create_issue", None))


def check(place: Target, base: str | None, *keys: str) -> Any:
    return HttpJsonVerifier().check(place, "report", base, frozenset(keys))


def arrivals(place: Target) -> list[Arrival] | None:
    return HttpJsonDestination().arrivals(place, NOW)


def test_it_fulfils_its_ports() -> None:
    assert isinstance(HttpJsonDestination(), ListsArrivals)
    assert isinstance(HttpJsonVerifier(), OutcomeVerifier)
    assert HttpJsonDestination.limits.endswith(".")


@pytest.mark.parametrize("key", [OPERATION, OTHER])
def test_a_key_is_found_again_in_names_and_texts(key: str) -> None:
    assert key_in_name(named(key)) == key
    assert key_of(key) == key_of(f"a\noperation-key: {key}\nb") == key
    assert len(label_of(key)) == 43


@pytest.mark.parametrize(
    "found",
    [
        None, 7, "", "x" + OTHER, OTHER + "0", f"see {OTHER}",
        f"operation-key: {OTHER}0", f"operation-key:{OTHER}",
        f"operation-key: {OTHER} operation-key: {OPERATION}", f"operation-key: {OPERATION}y",
    ],
)  # fmt: skip
def test_what_only_resembles_a_key_is_none(found: Any) -> None:
    assert key_of(found) is None


def test_it_finds_the_one_thing_in_a_list_that_carries_the_key(desk: Desk) -> None:
    desk.value = [{"id": 7, "body": MARKED}]
    found = ask(desk.destination())
    assert (found.answer, found.ref) == (Answer.PRESENT, KEY.digest("ref", "7"))
    assert desk.web.paths == [f"/issues?label={label_of(OPERATION)}"]
    assert nothing_of(found, MARKER)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ([{"body": MARKED}, {"body": MARKED}], "ambiguous"),
        ([{"body": MARKED}, {"body": "another"}], "another_key"),
        ([{"body": f"operation-key: {OTHER}"}], "another_key"),
        ([{}], "another_key"),
        ([], "not_found"),
        ({}, "items_missing"),
    ],
)
def test_a_list_that_does_not_answer_is_unknown(desk: Desk, value: Any, problem: str) -> None:
    desk.value = value
    found = ask(desk.destination())
    assert (found.answer, found.problem) == (Answer.UNKNOWN, problem)


def test_an_empty_list_is_absence_only_where_the_target_says_so(desk: Desk) -> None:
    assert ask(desk.destination(empty="absent")).answer is Answer.ABSENT
    desk.value = [{"body": "of somebody else: the filter was ignored"}]
    assert ask(desk.destination(empty="absent")).problem == "another_key"


def test_a_single_answer_must_carry_the_key_too(desk: Desk) -> None:
    desk.value = {"id": 7, "body": f"operation-key: {OTHER}"}
    assert ask(desk.destination(items=None)).problem == "another_key"
    desk.value = {"id": 7, "body": OPERATION}
    assert ask(desk.destination(items=None)).answer is Answer.PRESENT


def test_a_lone_surrogate_is_no_reason_to_fail(desk: Desk) -> None:
    desk.web.close()
    desk.web = Web(lambda _: (200, [], b'{"id": "\\ud800", "body": "\\udfff"}'))
    found = ask(desk.destination(items=None, operation_key=None))
    assert found.answer is Answer.PRESENT


REPORT = {"kind": "report", "final": True, "version": 5, "key": OPERATION}


def test_an_artifact_of_another_operation_is_not_fresh(desk: Desk) -> None:
    desk.value = REPORT
    assert check(desk.reports(), "4", OPERATION).fresh is True
    for keys in ((OTHER,), ()):
        theirs = check(desk.reports(), "4", *keys)
        assert (theirs.check, theirs.fresh, theirs.problem) == (Check.FAILED, False, "another_operation")
    desk.value = {**REPORT, "key": None}
    assert check(desk.reports(), "4", OPERATION).problem == "another_operation"
    plain = HttpJsonVerifier().check(desk.reports(operation_key="key"), "report", "4")
    assert plain.problem == "another_operation"


def test_it_names_the_selectors_that_did_not_match(desk: Desk) -> None:
    desk.value = {**REPORT, "kind": "memo", "final": 1}
    failed = check(desk.reports(), "4", OPERATION)
    assert (failed.check, failed.problem) == (Check.FAILED, "not_the_expected")
    assert failed.difference == tuple(sorted(KEY.digest("name", name) for name in ("kind", "final")))


def test_it_takes_the_newest_of_this_run_out_of_a_list(desk: Desk) -> None:
    desk.value = [{**REPORT, "version": 7, "key": OTHER}, {**REPORT, "version": 6}, {**REPORT, "version": 5}]
    place = desk.reports(items=".")
    assert HttpJsonVerifier().baseline(place, "report").version == "7"
    assert check(place, "4", OPERATION).version == "6"
    assert check(place, "6", OPERATION).problem == "none_newer"
    assert check(place, "4", "x").problem == "another_operation"
    desk.value = []
    assert check(place, "4", OPERATION).problem == "nothing_there"
    assert HttpJsonVerifier().baseline(place, "report").reachable is True
    desk.value = {"rows": 3}
    assert check(desk.reports(items="rows"), "4", OPERATION).problem == "items_missing"


def item(number: int, body: str = MARKED, minutes: int = 0) -> dict[str, Any]:
    return {"id": number, "body": body, "at": (NOW + timedelta(minutes=minutes)).isoformat()}


def test_it_lists_every_page_with_keys_and_times(desk: Desk) -> None:
    desk.value = [item(1), item(2, OTHER), item(3, MARKER, 5), item(4, minutes=-5), {"id": 5}]
    listed = arrivals(desk.listed())
    assert listed is not None
    assert [each.operation_key for each in listed] == [OPERATION, OTHER, None, None]
    assert [each.at for each in listed] == [NOW, NOW, NOW + timedelta(minutes=5), None]
    assert listed[0].ref == KEY.digest("ref", "1")
    assert MARKER not in repr(listed)
    assert len(desk.web.paths) == 4
    assert "since=2026-11-30T12%3A00%3A00%2B00%3A00" in desk.web.paths[0]
    assert HttpJsonDestination().lists(desk.listed())
    assert not HttpJsonDestination().lists(desk.destination())


def test_it_follows_a_cursor_to_its_end(desk: Desk) -> None:
    desk.value = [item(number) for number in range(5)]
    place = desk.listed(url=desk.web.url + "/cursor?cursor={cursor}", items="rows", next="next")
    listed = arrivals(place)
    assert listed is not None
    assert len(listed) == 5
    assert arrivals(desk.listed(url=desk.web.url + "/cursor", items="rows", next="none")) is None


def test_a_list_without_an_end_or_of_unknown_length_is_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.value = [item(number) for number in range(9)]
    assert arrivals(desk.listed(url=desk.web.url + "/issues")) is None
    whole = arrivals(desk.listed(url=desk.web.url + "/issues", whole=True))
    assert whole is not None
    assert len(whole) == 9
    monkeypatch.setattr(json_list, "MOST_PAGES", 3)
    assert arrivals(desk.listed()) is None
    monkeypatch.setattr(json_list, "MOST_PAGES", 100)
    monkeypatch.setattr(json_list, "MOST_SECONDS", -1.0)
    assert arrivals(desk.listed()) is None


def test_a_list_that_cannot_be_read_is_none(desk: Desk) -> None:
    desk.value = [item(1)]
    assert arrivals(desk.destination()) is None
    assert arrivals(desk.destination(list=[])) is None
    assert arrivals(desk.listed(items="rows")) is None
    desk.status = 500
    assert arrivals(desk.listed()) is None
    desk.web.close()
    assert arrivals(desk.listed()) is None


@pytest.mark.parametrize("talk", [stalls(), drips(b"HTTP/1.1 200 OK\r\n\r\n[")])
def test_a_list_that_stalls_is_none_in_time(desk: Desk, talk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    with server(talk) as port, ends():
        assert arrivals(desk.listed(url=f"http://127.0.0.1:{port}/?page={{page}}")) is None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("2026-11-30T12:00:00Z", NOW), ("2026-11-30T13:00:00+01:00", NOW), (int(NOW.timestamp()), NOW),
        ("2026-11-30T12:00:00", None), ("yesterday", None), (True, None), (10**30, None), (None, None),
        ([], None),
    ],
)  # fmt: skip
def test_it_reads_times_with_their_offset_or_not_at_all(value: Any, found: Any) -> None:
    assert moment_of(value) == found
