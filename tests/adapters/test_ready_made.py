"""The ready-made targets against local servers that answer as the three trackers do, not the trackers."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from branches.ports import Answer, Check, Question, Target
from debugger.adapters.destinations.http_json import HttpJsonDestination, HttpJsonVerifier
from debugger.adapters.destinations.keys_in_names import label_of
from debugger.adapters.destinations.ready_made import (
    Options,
    gitea_issues,
    github_issues,
    gitlab_issues,
    newest_issue,
)
from tests.adapters.places import KEY, MARKER, NOW, Web, target
from tests.adapters.talks import OPERATION, OTHER, nothing_of
from tests.adapters.test_http_json import payload


class Tracker:
    """A local server that lists issues as one of the trackers does, by what each of them documents."""

    def __init__(self, path: str, size: str, text: str, number: str, *, ignores_unknown_labels: bool) -> None:
        self.path, self.size, self.text, self.number = path, size, text, number
        self.ignores_unknown_labels = ignores_unknown_labels
        self.issues: list[dict[str, Any]] = []
        self.web = Web(self.answer)

    def file(self, key: str | None, *, label: str | None = "", minutes: int = 0, title: str = MARKER) -> None:
        text = MARKER if key is None else f"{MARKER}\n\n<!-- operation-key: {key} -->"
        named = label_of(key) if label == "" and key is not None else label
        at = (NOW + timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")
        number = len(self.issues) + 1
        self.issues.append(
            {"id": 1000 + number, self.number: number, "title": title, self.text: text, "created_at": at,
             "labels": [named] if named else []}
        )  # fmt: skip

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        parts = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path != self.path or asked.get("state") != "all":
            return 404, [], b'{"message": "Not Found"}'
        shown = self._filtered(asked)
        if "desc" in (asked.get("sort"), asked.get("direction")) or self.ignores_unknown_labels:
            shown = shown[::-1]
        size, page = int(asked[self.size]), int(asked.get("page", "1"))
        return 200, [], json.dumps(shown[(page - 1) * size : page * size]).encode()

    def _filtered(self, asked: dict[str, str]) -> list[dict[str, Any]]:
        shown = self.issues
        known = {label for each in self.issues for label in each["labels"]}
        label = asked.get("labels")
        if label and not (self.ignores_unknown_labels and label not in known):
            shown = [each for each in shown if label in each["labels"]]
        since = asked.get("since") or asked.get("created_after")
        if since:
            moment = datetime.fromisoformat(since)
            shown = [each for each in shown if datetime.fromisoformat(each["created_at"]) >= moment]
        return shown


def github() -> tuple[Tracker, Callable[..., Options]]:
    made = Tracker("/repos/a/b/issues", "per_page", "body", "number", ignores_unknown_labels=False)
    return made, lambda **more: github_issues("a", "b", base_url=made.web.url, **more)


def gitlab() -> tuple[Tracker, Callable[..., Options]]:
    made = Tracker(
        "/api/v4/projects/a%2Fb/issues", "per_page", "description", "iid", ignores_unknown_labels=False
    )
    return made, lambda **more: gitlab_issues("a/b", base_url=made.web.url, **more)


def gitea() -> tuple[Tracker, Callable[..., Options]]:
    made = Tracker("/api/v1/repos/a/b/issues", "limit", "body", "number", ignores_unknown_labels=True)
    return made, lambda **more: gitea_issues("a", "b", base_url=made.web.url, **more)


class Desk:
    def __init__(self, make: Callable[[], tuple[Tracker, Callable[..., Options]]]) -> None:
        self.tracker, self.options = make()

    def target(self, **more: Any) -> Target:
        return target(**self.options(**more), allow="loopback")

    def verifier(self) -> Target:
        options = newest_issue(self.options(), {"issue": {"title": MARKER}})
        return target(**options, allow="loopback")


@pytest.fixture(params=[github, gitlab, gitea], ids=["like_github", "like_gitlab", "like_gitea"])
def desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    made = Desk(request.param)
    yield made
    made.tracker.web.close()


def ask(place: Target, sent: str | None = None) -> Any:
    return HttpJsonDestination().ask(place, Question(OPERATION, "create_issue", sent))


def test_it_finds_the_issue_by_its_label_and_the_key_in_its_body(desk: Desk) -> None:
    desk.tracker.file(OTHER)
    desk.tracker.file(None)
    desk.tracker.file(OPERATION)
    sent = payload({"title": MARKER}, "create_issue")
    found = ask(desk.target(), sent)
    assert (found.answer, found.fingerprint, found.ref) == (Answer.PRESENT, sent, KEY.digest("ref", "3"))
    assert nothing_of(found, MARKER)
    assert ask(desk.target(), payload({"title": "other"}, "create_issue")).answer is Answer.CHANGED
    assert f"labels={label_of(OPERATION)}" in unquote(desk.tracker.web.paths[0])


def test_an_issue_that_is_not_found_is_unknown_unless_labels_are_kept(desk: Desk) -> None:
    assert ask(desk.target()).problem == "not_found"
    assert ask(desk.target(labels_are_kept=True)).answer is Answer.ABSENT
    desk.tracker.file(OPERATION, label=None)  # as where the writer may not label
    by_nothing = ask(desk.target()).answer
    # Where an unknown label is left out, the list shows the issue all the same.
    assert by_nothing is (Answer.PRESENT if desk.tracker.ignores_unknown_labels else Answer.UNKNOWN)


def test_what_another_put_under_the_label_is_no_answer(desk: Desk) -> None:
    desk.tracker.file(None, label=label_of(OPERATION))
    assert ask(desk.target(labels_are_kept=True)).problem == "another_key"
    desk.tracker.issues.clear()
    desk.tracker.file(OPERATION)
    desk.tracker.file(OPERATION)
    assert ask(desk.target()).problem == "ambiguous"


def test_a_filter_that_the_tracker_leaves_out_is_never_an_absence() -> None:
    desk = Desk(gitea)
    try:
        desk.tracker.file(OTHER)
        found = ask(desk.target(labels_are_kept=True))
        assert (found.answer, found.problem) == (Answer.UNKNOWN, "another_key")
    finally:
        desk.tracker.web.close()


def test_it_lists_every_issue_since_a_moment(desk: Desk) -> None:
    desk.tracker.file(OTHER, minutes=-5)
    for minutes in range(6):
        desk.tracker.file(OPERATION if minutes else None, minutes=minutes)
    listed = HttpJsonDestination().arrivals(desk.target(), NOW)
    assert listed is not None
    assert sorted(str(each.operation_key) for each in listed) == ["None", *[OPERATION] * 5]
    assert MARKER not in repr(listed)


def test_it_sends_the_token_of_the_environment(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKER_TOKEN", "s3cret")
    ask(desk.target(auth_env="TRACKER_TOKEN"))
    assert HttpJsonDestination().arrivals(desk.target(auth_env="TRACKER_TOKEN"), NOW) == []
    assert {each["Authorization"] for each in desk.tracker.web.seen} == {"Bearer s3cret"}
    assert newest_issue(desk.options(auth_env="TRACKER_TOKEN"), {})["auth_env"] == "TRACKER_TOKEN"


def test_the_newest_issue_of_the_run_verifies(desk: Desk) -> None:
    verifier, place = HttpJsonVerifier(), desk.verifier()
    assert verifier.baseline(place, "issue").version is None
    desk.tracker.file(OTHER)
    base = verifier.baseline(place, "issue").version
    assert base == "1"
    assert verifier.check(place, "issue", base, frozenset({OTHER})).problem == "none_newer"
    desk.tracker.file(OPERATION)
    desk.tracker.file(None)
    passed = verifier.check(place, "issue", base, frozenset({OPERATION}))
    assert (passed.check, passed.fresh, passed.version) == (Check.PASSED, True, "2")
    assert verifier.check(place, "issue", base, frozenset({"x"})).problem == "another_operation"
    desk.tracker.file(OPERATION, title="other")
    assert verifier.check(place, "issue", base, frozenset({OPERATION})).difference == (
        KEY.digest("name", "title"),
    )


def test_a_repository_that_may_not_be_seen_is_unknown(desk: Desk) -> None:
    desk.tracker.path = "/elsewhere"
    assert ask(desk.target(labels_are_kept=True)).problem == "status_undeclared"
    assert HttpJsonDestination().arrivals(desk.target(), NOW) is None
