"""How the ends of OpenAI Agents' runs are told: by spans, by what stood beside them, and by saved states."""

import json
from typing import Any

import pytest

from branches.evidence.domains import THREAD
from branches.ports import SourceFile
from tests.adapters.agent_traces import IMPORTER, TRACE, Trace, a_state, file_of, finished, saved, the_run
from tests.adapters.places import KEY
from tests.adapters.source_runs import a_file, bodies, edges, effects, handoff_verdicts, read, stop_states


@pytest.mark.parametrize(
    ("beside", "state"),
    [
        ({}, "uncertain"),
        (finished(), "false_complete"),
        ({"facts": {"final": "fine"}}, "false_complete"),
        ({"facts": {"final": None}}, "uncertain"),
        ({"facts": {"cancel_mode": "after_turn", "final": None}}, "bounded_stop"),
        ({"facts": {"exception": "TimeoutError"}}, "bounded_stop"),
        ({"facts": {"exception": "MyTimeout", "mro": ["MyTimeout", "TimeoutError"]}}, "bounded_stop"),
        ({"facts": {"exception": "CancelledError"}}, "bounded_stop"),
        ({"facts": {"exception": "ModelBehaviorError"}}, "failed"),
        # The class alone does not say how many turns were allowed.
        ({"facts": {"exception": "MaxTurnsExceeded"}}, "uncertain"),
    ],
)
def test_only_the_boundary_says_that_a_loop_was_done(beside: Any, state: str) -> None:
    trace = Trace().loop(("lookup", "ok"))
    assert stop_states(the_run(trace.file(**beside))) == [state]


def test_two_boundaries_that_saw_different_ends_prove_neither() -> None:
    trace = Trace().loop()
    files = [trace.file(**finished()), trace.file(facts={"exception": "TimeoutError"})]
    assert stop_states(the_run(*files)) == ["uncertain"]
    assert stop_states(the_run(trace.file(**finished()), trace.file(**finished()))) == ["false_complete"]


def test_a_limit_counts_where_the_output_was_made_to_look_usual() -> None:
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "worker")
    trace.end(trace.turn("u", "a", 1, "worker"))
    trace.end(agent, error="Max turns exceeded", max_turns=1)
    trace.end(task)
    assert stop_states(the_run(trace.file(**finished()))) == ["bounded_stop"]


def test_a_loop_whose_task_did_not_end_claims_nothing() -> None:
    trace = Trace()
    trace.task("t")
    agent = trace.agent("a", "t", "worker")
    trace.end(trace.turn("u", "a", 1, "worker"), agent)
    assert stop_states(the_run(trace.file(**finished()))) == ["uncertain"]


def test_a_trace_without_its_loop_stopped_for_no_recorded_reason() -> None:
    trace = Trace()
    trace.call("f", "somewhere", "lookup")
    assert stop_states(the_run(trace.file(**finished()))) == ["uncertain"]
    assert stop_states(the_run(Trace().file())) == ["uncertain"]


def test_two_runs_in_one_trace_stop_each_for_itself() -> None:
    trace = Trace()
    for number in (1, 2):
        task, agent = trace.task(f"t{number}"), trace.agent(f"a{number}", f"t{number}", "worker")
        trace.end(trace.turn(f"u{number}", f"a{number}", 1, "worker"), agent, task)
    run = the_run(trace.file(**finished()))
    assert stop_states(run) == ["uncertain", "false_complete"]  # the boundary saw the end of the last one
    assert [len(body["steps"]) for body in bodies(run, "stopped")] == [1, 1]


@pytest.mark.parametrize(
    ("error", "state"), [("Tool not found", "failed"), ("Something new", "failed"), (None, "false_complete")]
)
def test_an_error_of_the_last_turn_ended_the_loop(error: str | None, state: str) -> None:
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "worker")
    trace.end(trace.turn("u", "a", 1, "worker"), error=error)
    trace.end(agent, task)
    assert stop_states(the_run(trace.file(**finished()))) == [state]


def test_a_tool_that_failed_softly_and_succeeded_later_did_not_fail() -> None:
    soft = "An error occurred while running the tool. Please try again. Error: no"
    timed_out = "Tool 'lookup' timed out after 0.5 seconds."
    for first in (soft, timed_out):
        again = the_run(Trace().loop(("lookup", first), ("lookup", "ok")).file(**finished()))
        other = the_run(Trace().loop(("lookup", first), ("fetch", "ok")).file(**finished()))
        assert (stop_states(again), stop_states(other)) == (["false_complete"], ["failed"])
    # The SDK gives both back as if they were results.
    found = effects(the_run(Trace().loop(("lookup", soft), ("lookup", timed_out)).file()))
    assert found == [("lookup", "failed"), ("lookup", "no_answer")]


# --- calls that wait


def waiting(hidden: bool = False) -> Trace:
    """A loop that stopped for a person: its second call left a clean span with no output."""
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "billing")
    turn = trace.turn("u", "a", 1, "billing")
    trace.call("f1", "u", "lookup", None if hidden else "found", None if hidden else "{}")
    trace.call("f2", "u", "refund", None, None if hidden else '{"amount":42}')
    trace.end(turn, agent, task)
    return trace


def test_a_call_that_waits_is_no_effect() -> None:
    hooks = [["tool_start", "billing", "lookup", "c1"], ["tool_end", "billing", "lookup", "c1"]]
    assert effects(the_run(waiting().file())) == [("lookup", "acknowledged")]
    assert effects(the_run(waiting().file(hooks=hooks))) == [("lookup", "acknowledged")]


def test_an_empty_result_is_one_where_the_loop_went_on_or_the_hooks_fired() -> None:
    assert effects(the_run(Trace().loop(("refund", None)).file())) == [("refund", "acknowledged")]
    hooks = [["tool_start", "billing", "refund", "c2"]]
    began = the_run(waiting().file(hooks=hooks))
    assert effects(began)[1:] == [("refund", None)]
    ended = the_run(waiting().file(hooks=[*hooks, ["tool_end", "billing", "refund", "c2"]]))
    assert effects(ended)[1:] == [("refund", "acknowledged")]


def test_with_the_texts_hidden_a_call_must_be_asked_for_unless_the_state_says_that_it_waits() -> None:
    hidden = waiting(hidden=True).file()
    assert effects(the_run(hidden)) == [("lookup", None), ("refund", None)]
    assert ("refund", None) not in effects(the_run(hidden, a_file("state.json", a_state())))


def test_a_call_that_outlived_its_turn_may_have_happened() -> None:
    trace = Trace()
    task, agent = trace.task("t"), trace.agent("a", "t", "worker")
    turn = trace.turn("u", "a", 1, "worker")
    call = trace.begin("f", "u", type="function", name="pay", input="{}", output=None)
    trace.end(turn, agent, task, call)
    assert effects(the_run(trace.file(facts={"exception": "TimeoutError"}))) == [("pay", None)]


def test_a_call_that_a_person_rejected_was_not_made_and_did_not_fail() -> None:
    trace = Trace().loop(("refund", "no"))
    (call,) = [each for each in trace.spans() if each["span_data"]["type"] == "function"]
    detail = "Tool execution for c2 was manually rejected by user."
    call["error"] = {"message": "not today", "data": {"tool_name": "refund", "error": detail}}
    run = the_run(trace.file(**finished()))
    assert (effects(run), stop_states(run)) == ([], ["false_complete"])


def test_a_trace_and_its_saved_state_are_one_run_and_the_state_says_why_it_stands() -> None:
    run = the_run(waiting().file(), a_file("state.json", a_state()))
    assert run.external_ref == KEY.digest(THREAD, TRACE)
    assert stop_states(run) == ["waiting_unrouted"]
    assert effects(run) == [("lookup", "acknowledged")]
    alone = the_run(a_file("state.json", a_state()))
    assert alone.external_ref == run.external_ref
    assert stop_states(alone) == ["waiting_unrouted"]


def test_a_run_that_was_resumed_goes_on_with_its_turns() -> None:
    trace = waiting()
    task, agent = trace.task("t2"), trace.agent("a2", "t2", "billing")
    trace.call("f3", "a2", "refund", "refunded")
    trace.end(trace.turn("u2", "a2", 2, "billing"), agent, task)
    run = the_run(trace.file(**finished("billing")), a_file("state.json", a_state()))
    assert stop_states(run) == ["waiting_unrouted", "false_complete"]
    assert effects(run) == [("lookup", "acknowledged"), ("refund", "acknowledged")]
    assert [len(body["steps"]) for body in bodies(run, "stopped")] == [1, 2]


def test_a_state_that_was_saved_later_than_the_last_span_stands_at_the_end() -> None:
    run = the_run(Trace().loop().file(**finished()), a_file("state.json", a_state(turn=5)))
    assert stop_states(run) == ["false_complete", "waiting_unrouted"]


def test_a_state_between_two_turns_says_nothing_of_the_end() -> None:
    value = a_state(current_step={"type": "next_step_run_again"})
    assert stop_states(the_run(a_file("state.json", value))) == ["uncertain"]


def test_states_without_a_trace_are_runs_of_their_own() -> None:
    value = saved("approved.json")
    spaced = SourceFile("spaced", json.dumps(value, indent=3, sort_keys=True).encode())
    assert read(IMPORTER, spaced, file_of("approved.json")).runs == (the_run(file_of("approved.json")),)
    other = a_file("other", {**value, "current_turn": 4})
    assert len(read(IMPORTER, other, file_of("approved.json")).runs) == 2


# --- hand-overs


def test_work_that_is_handed_on_waits_for_the_next_one() -> None:
    trace = Trace()
    task = trace.task("t")
    for number, (name, receiver) in enumerate([("a", "b"), ("b", "c"), ("c", None)], 1):
        agent, turn = trace.agent(name, "t", name), trace.turn(f"u{number}", name, number, name)
        if receiver is not None:
            trace.handoff(f"h{number}", turn["id"], name, receiver)
        trace.end(turn, agent)
    trace.end(task)
    run = the_run(trace.file(**finished("c")))
    verdicts = handoff_verdicts(run)
    assert {name: str(each.state) for name, each in verdicts.items()} == {
        "b": "waiting",
        "c": "false_success",
    }
    assert verdicts["b"].reasons == ("dependency:c",)


def test_a_hand_over_that_nobody_took_is_orphaned_and_one_without_a_receiver_is_none() -> None:
    trace = Trace()
    task, agent, turn = trace.task("t"), trace.agent("a", "t", "a"), trace.turn("u", "a", 1, "a")
    trace.handoff("h1", "u", "a", "b")
    trace.handoff("h2", "u", "a", None)
    trace.end(turn, agent, task)
    run = the_run(trace.file())
    assert {name: str(each.state) for name, each in handoff_verdicts(run).items()} == {"b": "orphaned"}
    assert edges(run) == ["a>b:handoff unset"]


def test_an_agent_that_failed_as_a_tool_is_an_edge_that_is_not_ok() -> None:
    trace = Trace()
    task, agent, turn = trace.task("t"), trace.agent("a", "t", "boss"), trace.turn("u", "a", 1, "boss")
    call = trace.begin("f", "u", type="function", name="ask", input="{}", output=None)
    inner, expert = trace.task("t2", "f"), trace.agent("a2", "t2", "expert")
    trace.call("f2", "a2", "pay")
    trace.end(expert, error="Error in agent run")
    trace.end(inner)
    trace.end(call, error="Error running tool (non-fatal)")
    trace.end(turn, trace.turn("v", "a", 2, "boss"), agent, task)
    run = the_run(trace.file(**finished("boss")))
    assert edges(run) == ["boss>expert:agent_as_tool error"]
    assert effects(run) == [("ask", "failed"), ("pay", "acknowledged")]
    assert stop_states(run) == ["failed"]
    assert [each.agent for each in run.receipts if each.kind == "effect_intended"] == ["boss", "expert"]
