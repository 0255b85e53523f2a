"""The conformance suite: a real recorder keeps every promise, and a careless one is found at each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from branches.queries.conformance import REQUIRED
from debugger.recorder.conformance import run_suite
from debugger.recorder.conformance.gate import Gate, claims_of
from debugger.recorder.conformance.langgraph import LangGraphSubject
from debugger.recorder.conformance.suite import CHECKS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Careless(LangGraphSubject):
    """Starts whatever it is given, at once and again, and asks nobody."""

    def resume(self, envelope: Mapping[str, Any]) -> str:
        branch = claims_of(dict(envelope))["branch"]
        self._graph.invoke({"ticket": "", "mail": ""}, {"configurable": {"thread_id": branch}})
        self._graph.update_state({"configurable": {"thread_id": "conformance"}}, {"mail": "overwritten"})
        return "natural_finish"


class Timid(LangGraphSubject):
    """Starts nothing at all: whoever never runs keeps no promise about running."""

    def resume(self, envelope: Mapping[str, Any]) -> str:
        return "ignored"


class Broken(LangGraphSubject):
    """Fails wherever it is asked."""

    def record(self, gate: Gate, folder: Path) -> None:
        super().record(gate, folder)
        raise OSError("no such place")


def test_the_recorder_of_langgraph_keeps_every_promise() -> None:
    report = run_suite(LangGraphSubject)
    assert report.failed == ()
    assert set(report.passed) == REQUIRED


def test_a_careless_recorder_keeps_none() -> None:
    assert set(run_suite(Careless).failed) == set(CHECKS)


def test_whoever_never_starts_a_branch_keeps_only_what_forbids_one() -> None:
    assert set(run_suite(Timid).failed) == {
        "redeemed_before_it_exists",
        "started_once",
        "parent_untouched",
        "reused_not_repeated",
    }


def test_a_recorder_that_fails_is_told_by_the_sort_of_its_failure() -> None:
    assert {each.word for each in run_suite(Broken).outcomes} == {"failed_oserror"}
