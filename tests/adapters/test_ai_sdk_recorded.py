"""Evidence that a recorder wrote while a loop ran: times, the policy's version, calls that no step shows."""

from typing import Any

import pytest

from debugger.adapters.runtimes.ai_sdk_receipts import NO_TIME
from tests.adapters.ai_sdk_loops import a_loop, a_step, refusal_of, run_of, saved, stop, thrown
from tests.adapters.places import MARKER
from tests.adapters.source_runs import effects, stop_states


def outside(tool: str, after: int, *, returned: bool = False, error: str | None = None) -> dict[str, Any]:
    return {
        "tool": tool,
        "call_ref": f"sha256:{tool}",
        "after_step": after,
        "returned": returned,
        "error_class": error,
    }


def test_the_times_of_a_loop_are_those_of_its_receipts() -> None:
    steps = [a_step(1, "search", at="2026-12-01T09:00:01Z"), a_step(2)]
    times = {"started_at": "2026-12-01T09:00:00Z", "ended_at": "2026-12-01T09:00:02Z"}
    assert [each.at for each in run_of(a_loop(*steps, **times)).receipts] == [
        "2026-12-01T09:00:00Z",
        "2026-12-01T09:00:01Z",
        "2026-12-01T09:00:01Z",
        "2026-12-01T09:00:02Z",
    ]
    assert {each.at for each in run_of(saved("01_natural_finish.json")).receipts} == {NO_TIME}


def test_two_loops_that_went_alike_are_two_runs() -> None:
    first, second, again = (run_of(a_loop(a_step(1), loop=each)) for each in ("a", "b", "a"))
    assert first.external_ref != second.external_ref
    assert first == again


def test_a_timeout_that_was_set_is_a_deadline() -> None:
    timeout = {"name": "timeout", "params": {"ms": 500}, "evaluations": []}
    run = run_of(a_loop(a_step(1, "search"), conditions=[timeout], end=thrown("TimeoutError")))
    assert stop(run)["policy"]["conditions"] == [{"type": "deadline", "ms": 500}]


def test_the_version_of_the_policy_is_kept_and_must_be_one() -> None:
    assert stop(run_of(a_loop(a_step(1), policy_version="p7")))["policy"]["version"] == "p7"
    assert refusal_of(a_loop(a_step(1), policy_version=f"p {MARKER}"))[1:] == ("policy_version", "version")


def test_a_call_that_was_approved_before_the_loop_is_an_effect_and_progress() -> None:
    calls = [outside("refund", 0, returned=True)]
    run = run_of(a_loop(a_step(1), calls_outside_steps=calls))
    assert effects(run) == [("refund", "acknowledged")]
    assert stop(run)["useful_progress"] is True


def test_an_approved_call_that_failed_fails_the_loop_until_the_tool_succeeds() -> None:
    failed = [outside("refund", 0, error="TypeError")]
    assert stop_states(run_of(a_loop(a_step(1), calls_outside_steps=failed))) == ["failed"]
    later = a_loop(a_step(1, "refund"), a_step(2), calls_outside_steps=failed)
    assert stop_states(run_of(later)) == ["false_complete"]


@pytest.mark.parametrize(("error", "answer"), [(None, None), ("AbortError", "no_answer")])
def test_a_call_whose_step_was_cut_off_may_have_happened_and_did_not_fail(
    error: str | None, answer: str | None
) -> None:
    calls = [outside("slow", 1, error=error)]
    run = run_of(a_loop(a_step(1, "search"), end=thrown("AbortError"), calls_outside_steps=calls))
    assert effects(run) == [("slow", answer), ("search", "acknowledged")]
    assert stop_states(run) == ["bounded_stop"]


def test_a_call_cut_off_in_an_earlier_loop_of_its_own_failed() -> None:
    calls = [outside("slow", 0, error="TimeoutError")]
    assert stop_states(run_of(a_loop(a_step(1), a_step(2), calls_outside_steps=calls))) == ["failed"]


@pytest.mark.parametrize("approved", [True, False])
def test_what_a_rule_of_the_program_decided_waits_for_nobody(approved: bool) -> None:
    step = a_step(1, "refund", tool_results=[])
    step["approval_requests"] = [{**step["tool_calls"][0], "approval_ref": "sha256:a", "automatic": True}]
    step["approval_responses"] = [{"approval_ref": "sha256:a", "approved": approved}]
    run = run_of(a_loop(step, a_step(2)))
    assert effects(run) == ([("refund", None)] if approved else [])
    assert stop(run)["approval"] is None


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"calls_outside_steps": [{"tool": "x"}]}, "calls_outside_steps.0.returned", "required"),
        ({"calls_outside_steps": MARKER}, "calls_outside_steps", "list"),
        ({"started_at": MARKER}, "started_at", "timestamp"),
    ],
)
def test_what_does_not_fit_is_refused_by_field_and_rule(
    changes: dict[str, Any], field: str, rule: str
) -> None:
    assert refusal_of(a_loop(a_step(1), **changes))[1:] == (field, rule)
