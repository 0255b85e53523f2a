"""Our own approval queue as a state: asked of the real server, and of one that answers nonsense."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.domains import PART
from branches.ports import Moment, StateMeasurement
from debugger.adapters.probes import branchgate_approvals
from debugger.adapters.probes.branchgate_approvals import BranchgateApprovalsProbe
from tests.adapters.places import KEY, MARKER, MOMENT, target
from tests.adapters.places_approvals import TOKEN_ENV, Approvals, request_id
from tests.js.served import Served, served
from tests.worlds import ROOT

PROBE = BranchgateApprovalsProbe()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("approvals")) as made:
        yield made


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Approvals]:
    made = Approvals(tmp_path)
    yield made
    made.close()


def perform(server: Served, *step: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-m", "tests.adapters.approvals_world", *step],
        cwd=ROOT,
        env={**os.environ, **server.env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def counts(found: StateMeasurement) -> tuple[Any, Any]:
    assert (found.reachable, found.problem) == (True, None)
    return found.facts["pending"], found.facts["resolved"]


def drifted(before: StateMeasurement, after: StateMeasurement) -> set[str]:
    names = {KEY.digest(PART, name): name for name in PROBE.part_names}
    return {names[part] for part in before.parts if before.parts[part] != after.parts[part]}


def test_it_asks_the_real_queue_now_and_as_it_was(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    world = perform(server, "made")
    monkeypatch.setenv(TOKEN_ENV, world["token"])
    here = target(url=server.url, auth_env=TOKEN_ENV, allow="loopback")
    moment = Moment(None, None, datetime.fromisoformat(world["at"]), world["branch"])
    before = PROBE.measure(here, moment)
    assert counts(before) == (1, 1)  # its own branch's request is left out
    assert counts(PROBE.measure(here, replace(moment, run=world["root"]))) == (2, 1)
    assert counts(PROBE.measure(here, replace(moment, run=None))) == (2, 1)
    assert PROBE.capture(here, moment) == before
    perform(server, "approved", world["grace"], world["made"]["own"])
    assert PROBE.measure(here, moment) == before
    granted = perform(server, "approved", world["grace"], world["made"]["other"])
    after = PROBE.measure(here, moment)
    assert (counts(after), drifted(before, after)) == ((0, 2), {"pending", "resolved"})
    assert PROBE.capture(here, moment) == before
    perform(server, "revoked", world["grace"], world["made"]["other"])
    taken = PROBE.measure(here, moment)
    assert (counts(taken), drifted(after, taken)) == ((0, 2), {"resolved"})
    then = replace(moment, at=datetime.fromisoformat(granted["at"]))
    assert PROBE.capture(here, then) == after
    assert not any(uid in repr((before, after, taken)) for uid in world["made"].values())


def test_it_says_what_a_server_that_knows_it_not_says(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_ENV, MARKER)
    here = target(url=server.url, auth_env=TOKEN_ENV, allow="loopback")
    found = PROBE.measure(here, MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "not_authorized")


def test_it_asks_every_page_as_of_one_moment(place: Approvals) -> None:
    run = "run_" + "a" * 24
    found = PROBE.measure(place.target(), replace(MOMENT, run=run))
    assert counts(found) == (6, 1)
    first, *rest = place.asked
    assert first == {"until": "2026-11-30T12:00:00+00:00", "beside": run}
    then = {**first, "as_of": "2026-11-30T12:00:01Z"}
    assert rest == [{**then, "after": request_id(last)} for last in ("2", "5")]


def test_it_captures_every_page_as_of_the_moment(place: Approvals) -> None:
    PROBE.capture(place.target(), MOMENT)
    assert {asked["as_of"] for asked in place.asked} == {"2026-11-30T12:00:00+00:00"}


def test_it_gives_up_on_more_requests_than_it_reads(
    place: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branchgate_approvals, "MOST_REQUESTS", 6)
    assert PROBE.measure(place.target(), MOMENT).problem == "too_many"
    place.answers = [(200, {"as_of": "x", "requests": [], "more": True})]
    assert PROBE.measure(place.target(), MOMENT).problem == "too_many"
    monkeypatch.setattr(branchgate_approvals, "MOST_REQUESTS", 7)
    assert counts(PROBE.measure(place.target(), MOMENT)) == (6, 1)


def test_it_gives_up_after_its_time(place: Approvals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(branchgate_approvals, "TOTAL_S", -1)
    assert PROBE.measure(place.target(), MOMENT).problem == "timeout"


def listed(**changes: Any) -> dict[str, Any]:
    entry = {"request": request_id("1"), "state": "pending", **changes}
    return {"as_of": "2026-11-30T12:00:01Z", "requests": [entry], "more": False}


NONSENSE: dict[str, tuple[int, Any, str]] = {
    "no JSON": (200, b"<html>", "answer_form"),
    "nested too deeply": (200, b"[" * 60_000, "answer_form"),
    "a list": (200, [], "answer_form"),
    "no requests": (200, {"as_of": "x", "more": False}, "answer_form"),
    "an id of another form": (200, listed(request=MARKER), "answer_form"),
    "an id of another thing": (200, listed(request="run_" + "a" * 24), "answer_form"),
    "a state that is none": (200, listed(state=MARKER), "answer_form"),
    "a state that is a list": (200, listed(state=["pending"]), "answer_form"),
    "no moment": (200, {**listed(), "as_of": None}, "answer_form"),
    "perhaps more": (200, {**listed(), "more": "no"}, "answer_form"),
    "too many bytes": (200, b" " * 70_000, "too_large"),
    "another page": (302, b"", "status_undeclared"),
    "refused": (403, {}, "not_authorized"),
    "nothing": (404, {}, "not_found"),
    "busy": (429, {}, "busy"),
    "an error": (500, {}, "server_error"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_it_guesses_nothing_from(place: Approvals, name: str) -> None:
    status, body, problem = NONSENSE[name]
    place.answers = [(status, body)]
    found = PROBE.measure(place.target(), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem, found.facts) == (None, False, problem, {})
    assert MARKER not in repr(found)


def test_it_sends_its_token_in_clear_to_this_machine_only(
    place: Approvals, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = target(**{**place.target().options, "allow": ["127.0.0.0/8"]})
    assert PROBE.measure(elsewhere, MOMENT).problem == "secret_in_clear"
    monkeypatch.delenv(TOKEN_ENV)
    assert PROBE.measure(place.target(), MOMENT).problem == "secret_missing"
    assert place.web.paths == []


def test_it_takes_no_address_with_a_question_of_its_own(place: Approvals) -> None:
    asked = target(**{**place.target().options, "url": f"{place.web.url}/?x="})
    found = PROBE.measure(asked, MOMENT)
    assert (found.problem, found.unfit) == ("target_unfit", "url: address")
