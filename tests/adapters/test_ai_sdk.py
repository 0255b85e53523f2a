"""Loops of the Vercel AI SDK: why each stopped, which tools were run, and files that are none."""

from typing import Any

import pytest

from branches.evidence.keys import HmacKey
from branches.ports import RuntimeImporter
from debugger.adapters.runtimes.ai_sdk import AiSdkImporter
from tests.adapters.ai_sdk_loops import (
    IMPORTER,
    LOOPS,
    a_loop,
    a_step,
    file_of,
    fired,
    refusal_of,
    run_of,
    saved,
    stop,
    thrown,
)
from tests.adapters.places import MARKER
from tests.adapters.source_runs import a_file, bodies, check, effects, everything, read, stop_states


def test_it_fulfils_its_port() -> None:
    assert isinstance(IMPORTER, RuntimeImporter)
    assert IMPORTER.versions == ("7.0.173", "6.0.326")


@pytest.mark.parametrize("name", LOOPS)
def test_each_captured_loop_gets_the_state_that_it_was_made_for(name: str) -> None:
    (run,) = read(IMPORTER, file_of(name)).runs
    check(run)
    assert stop_states(run) == [saved(name)["expected_stop_state"]]
    assert run.receipts[0].body["runtime"] == {"name": "ai-sdk", "version": "7.0.173"}


@pytest.mark.parametrize("name", LOOPS)
def test_what_a_file_expects_changes_nothing(name: str) -> None:
    loop = {**saved(name), "expected_stop_state": "verified_complete"}
    assert read(IMPORTER, a_file(name, loop)).runs == read(IMPORTER, file_of(name)).runs


def test_the_table_of_conditions_is_no_run() -> None:
    found = read(IMPORTER, file_of("PREDICATES.json"), file_of("01_natural_finish.json"))
    assert [(each.where, each.field, each.rule) for each in found.refused] == [
        ("PREDICATES.json", "steps", "not_a_run")
    ]
    assert len(found.runs) == 1


def test_all_files_at_once_are_a_run_each_in_any_order() -> None:
    files = [file_of(name) for name in LOOPS]
    there = {run.external_ref: run for run in read(IMPORTER, *files).runs}
    back = {run.external_ref: run for run in read(IMPORTER, *reversed(files), *files).runs}
    assert len(there) == len(LOOPS) == 12
    assert there == back


def test_another_key_gives_other_digests_and_the_same_words() -> None:
    other = AiSdkImporter().read([file_of("03_finish_tool_hasToolCall.json")], HmacKey("feedf00d", b"j" * 32))
    (mine,) = read(IMPORTER, file_of("03_finish_tool_hasToolCall.json")).runs
    assert other.runs[0].external_ref != mine.external_ref
    assert [each.kind for each in other.runs[0].receipts] == [each.kind for each in mine.receipts]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01_natural_finish.json", [("search", "acknowledged")]),
        # A tool that nobody runs is no effect: it is how the model says that it is done.
        ("02_done_tool_no_execute.json", [("search", "acknowledged")]),
        ("03_finish_tool_hasToolCall.json", [("search", "acknowledged"), ("finish", "acknowledged")]),
        ("04_step_limit.json", [("search", "acknowledged")] * 3),
        # What waits for a person was not sent.
        ("06_approval_unrouted.json", []),
        ("07_approval_routed.json", []),
        ("11_tool_error_then_claims_done.json", [("bad", "failed")]),
        # Cut short: it may have happened all the same.
        ("15_timeout_total.json", [("slow", "no_answer")]),
        ("19_user_abort_generate.json", [("slow", "no_answer")]),
    ],
)
def test_its_effects_are_the_calls_that_the_sdk_ran(name: str, expected: list[Any]) -> None:
    (run,) = read(IMPORTER, file_of(name)).runs
    assert effects(run) == expected


def test_calls_with_one_reference_are_operations_of_their_own_and_no_payload_equals_another() -> None:
    (run,) = read(IMPORTER, file_of("04_step_limit.json")).runs
    intended = bodies(run, "effect_intended")
    assert len({body["operation_key"] for body in intended}) == 3
    assert len({body["payload"] for body in intended}) == 3
    assert {(body["key_strength"], body["effect_class"]) for body in intended} == {("weak", "unknown")}


def test_a_routed_approval_keeps_who_and_when_and_the_token_only_as_a_digest() -> None:
    (run,) = read(IMPORTER, file_of("07_approval_routed.json")).runs
    approval = stop(run)["approval"]
    assert approval["owner"] == "approver-1"
    assert approval["deadline"] == "2026-12-01T09:00:00+00:00"
    assert approval["resume_token"].startswith("hmac-sha256:0badc0de:")


def test_a_deadline_that_is_no_time_is_refused() -> None:
    loop = saved("07_approval_routed.json")
    loop["approval_route"]["deadline"] = f"tomorrow {MARKER}"
    assert refusal_of(loop) == ("loop.json", "approval_route.deadline", "timestamp")


def test_an_owner_who_poses_as_a_person_of_ours_is_covered() -> None:
    loop = saved("07_approval_routed.json")
    loop["approval_route"]["owner"] = "per_" + "a" * 24
    assert stop(run_of(loop))["approval"]["owner"].startswith("hmac-sha256:")


def test_an_answered_approval_is_not_pending() -> None:
    loop = saved("06_approval_unrouted.json")
    (request,) = loop["steps"][0]["approval_requests"]
    for approved in (True, False):
        answer = {"approval_ref": request["approval_ref"], "approved": approved}
        loop["steps"][0]["approval_responses"] = [answer]
        run = run_of(loop)
        # What was approved may have been run; what was denied was not.
        assert effects(run) == ([("refund", None)] if approved else [])
        assert stop(run)["approval"] is None


# --- the conditions, as 6 and as 7 name them


@pytest.mark.parametrize("version", ["6.0.326", "6.0.0-beta.12", "7.0.173", "7.1.0"])
@pytest.mark.parametrize("name", ["isStepCount", "stepCountIs"])
def test_a_step_limit_has_two_names(version: str, name: str) -> None:
    loop = a_loop(a_step(1, "search"), a_step(2, "search"), finish="tool-calls")
    loop["runtime"]["version"] = version
    loop["stop_conditions"] = [fired(name, 2, {"n": 2})]
    run = run_of(loop)
    assert stop_states(run) == ["bounded_stop"]
    assert stop(run)["policy"]["conditions"] == [{"type": "step_count", "n": 2}]
    assert run.receipts[0].body["runtime"]["version"] == version


@pytest.mark.parametrize("params", [{"tools": ["other", "finish"]}, {"tool": "finish"}])
def test_has_tool_call_names_one_tool_in_6_and_several_in_7(params: Any) -> None:
    loop = a_loop(a_step(1, "search"), a_step(2, "finish"), finish="tool-calls")
    loop["stop_conditions"] = [fired("hasToolCall", 2, params)]
    run = run_of(loop)
    assert (stop(run)["stop_cause"], stop(run)["done_tool"]) == ("done_tool", "finish")
    assert stop_states(run) == ["false_complete"]


@pytest.mark.parametrize("version", ["5.0.99", "8.0.0", "70.1.2", "7", "", f"7.0.1 {MARKER}", "7.0.173\n"])
def test_it_refuses_a_version_it_does_not_know(version: str) -> None:
    loop = saved("01_natural_finish.json")
    loop["runtime"]["version"] = version
    assert refusal_of(loop)[1:] == ("runtime.version", "version_unknown" if version else "empty")


@pytest.mark.parametrize(
    ("changes", "field", "rule"),
    [
        ({"schema": "stop-evidence/2"}, "schema", "unknown"),
        ({"runtime": {"package": MARKER, "version": "7.0.173"}}, "runtime.package", "unknown"),
        ({"runtime": None}, "runtime", "object"),
    ],
)
def test_it_refuses_what_another_program_wrote(changes: Any, field: str, rule: str) -> None:
    assert refusal_of({**saved("01_natural_finish.json"), **changes}) == ("loop.json", field, rule)


# --- the cause is what was recorded, never what looks likely


def test_as_many_steps_as_the_limit_allows_prove_nothing_by_themselves() -> None:
    conditions = [
        {"name": "isStepCount", "params": {"n": 2}, "evaluations": [{"at_steps": 1, "result": False}]}
    ]
    loop = a_loop(a_step(1, "search"), a_step(2, "search"), finish="tool-calls", conditions=conditions)
    assert stop(run_of(loop))["stop_cause"] is None
    assert stop_states(run_of(loop)) == ["uncertain"]


def test_a_default_limit_cannot_be_watched_and_counts_where_nothing_else_could_end_the_loop() -> None:
    steps = [a_step(number, "search") for number in range(1, 21)]
    loop = a_loop(*steps, finish="tool-calls")
    loop["agent"]["default_stop_condition"] = True
    assert stop_states(run_of(loop)) == ["bounded_stop"]
    assert stop(run_of(loop))["policy"]["conditions"] == [{"type": "step_count", "n": 20}]
    shorter = {**loop, "steps": steps[:19], "end": {**loop["end"], "steps": 19}}
    assert stop_states(run_of(shorter)) == ["uncertain"]
    single = {**a_loop(a_step(1, "search"), finish="tool-calls"), "entry": "generateText"}
    single["agent"]["default_stop_condition"] = True
    assert stop_states(run_of(single)) == ["bounded_stop"]


def test_a_condition_that_receipts_have_no_word_for_is_no_cause() -> None:
    loop = a_loop(a_step(1, "search"), finish="tool-calls", conditions=[fired(f"mine {MARKER}", 1, {"n": 1})])
    assert stop(run_of(loop))["stop_cause"] is None
    assert stop(run_of(loop))["policy"]["conditions"] == []
    assert MARKER not in everything(read(IMPORTER, a_file("loop.json", loop)))


def test_where_the_done_tool_and_the_limit_fire_at_once_the_claim_is_what_is_to_be_checked() -> None:
    both = [fired("isStepCount", 1, {"n": 1}), fired("hasToolCall", 1, {"tools": ["finish"]})]
    loop = a_loop(a_step(1, "finish"), finish="tool-calls", conditions=both)
    assert stop(run_of(loop))["stop_cause"] == "done_tool"


def test_a_tool_that_nobody_runs_is_a_claim_only_where_it_is_the_done_tool() -> None:
    step = a_step(1, "done", tool_results=[])
    loop = a_loop(step, finish="tool-calls")
    assert stop(run_of(loop))["stop_cause"] == "done_tool"
    loop["agent"]["tools"].append({"name": "ask_browser", "has_execute": False})
    other = {**loop, "steps": [a_step(1, "ask_browser", tool_results=[])]}
    assert stop_states(run_of(other)) == ["uncertain"]
    assert stop(run_of({**other, "done_tool": "ask_browser"}))["done_tool"] == "ask_browser"


@pytest.mark.parametrize(
    ("finish", "cause", "state"),
    [
        ("stop", "natural_finish", "false_complete"),
        ("length", "output_limit", "bounded_stop"),
        ("content-filter", "provider_error", "failed"),
        ("error", "provider_error", "failed"),
        ("other", None, "uncertain"),
        ("something new", None, "uncertain"),
    ],
)
def test_the_finish_reason_of_the_provider_is_the_cause_where_no_condition_fired(
    finish: str, cause: str | None, state: str
) -> None:
    run = run_of(a_loop(a_step(1, finish=finish), finish=finish))
    assert (stop(run)["stop_cause"], stop_states(run)) == (cause, [state])


@pytest.mark.parametrize(
    ("end", "cause", "state"),
    [
        (thrown("TimeoutError"), "timeout", "bounded_stop"),
        (thrown("AbortError"), "user_abort", "bounded_stop"),
        (thrown("AI_APICallError", of_sdk=True), "provider_error", "failed"),
        (thrown("AI_NoSuchToolError", of_sdk=True), "tool_error", "failed"),
        (thrown("Error"), "provider_error", "failed"),
        ({"kind": "something new"}, None, "uncertain"),
    ],
)
def test_what_was_thrown_is_told_by_its_class(end: Any, cause: str | None, state: str) -> None:
    run = run_of(a_loop(a_step(1, "search"), end=end))
    assert (stop(run)["stop_cause"], stop_states(run)) == (cause, [state])


@pytest.mark.parametrize(
    ("event", "cause", "finished"),
    [({}, "user_abort", None), ({"reason": "TimeoutError"}, "timeout", "timeout")],
)
def test_a_stream_that_is_aborted_throws_nothing(event: Any, cause: str, finished: str | None) -> None:
    callbacks = {"events": [{"event": "onAbort", **event}]}
    loop = a_loop(a_step(1, "search"), end={"kind": "stream_ended"}, callbacks=callbacks)
    assert stop(run_of(loop))["stop_cause"] == cause
    # Aborted and finished as well, with no reason given: the two disagree.
    both = {**loop, "end": {"kind": "returned", "finish_reason": "stop", "steps": 1}}
    assert stop(run_of(both))["stop_cause"] == finished


def test_steps_that_are_missing_leave_the_cause_open() -> None:
    loop = a_loop(a_step(1))
    loop["end"]["steps"] = 2
    assert stop_states(run_of(loop)) == ["uncertain"]


def test_a_tool_that_failed_and_succeeded_later_did_not_fail() -> None:
    failed = a_step(1, "search", tool_results=[])
    failed["tool_errors"] = [{**failed["tool_calls"][0], "error_class": "TypeError"}]
    assert stop_states(run_of(a_loop(failed, a_step(2, "search"), a_step(3)))) == ["false_complete"]
    assert stop_states(run_of(a_loop(a_step(1, "search"), {**failed, "n": 2}, a_step(3)))) == ["failed"]
    assert stop_states(run_of(a_loop(failed, a_step(2, "finish"), a_step(3)))) == ["failed"]


def test_a_tool_that_timed_out_by_itself_failed() -> None:
    slow = a_step(1, "slow", tool_results=[])
    slow["tool_errors"] = [{**slow["tool_calls"][0], "error_class": "TimeoutError"}]
    run = run_of(a_loop(slow, a_step(2)))
    assert stop_states(run) == ["failed"]
    assert effects(run) == [("slow", "no_answer")]


def test_a_call_of_no_tool_at_all_failed_and_was_no_effect() -> None:
    step = a_step(1, "nosuch", tool_results=[])
    step["tool_calls"][0] |= {"invalid": True, "error_class": "AI_NoSuchToolError"}
    run = run_of(a_loop(step, a_step(2)))
    assert stop_states(run) == ["failed"]
    assert effects(run) == []


def test_a_preliminary_result_is_none() -> None:
    step = a_step(1, "slow")
    step["tool_results"] = [{**step["tool_calls"][0], "preliminary": True}]
    run = run_of(a_loop(step, end=thrown("TimeoutError")))
    assert stop_states(run) == ["stuck"]
    assert effects(run) == [("slow", None)]


def test_steps_out_of_order_are_put_in_order() -> None:
    steps = [a_step(1, "search"), a_step(2, "finish"), a_step(3)]
    there, back = run_of(a_loop(*steps)), run_of(a_loop(*reversed(steps)))
    assert stop(there) == stop(back)
    assert [each["tools"] for each in stop(there)["steps"]] == [["search"], ["finish"], []]
