"""Runs of the OpenAI Agents SDK: what each captured file gives, and how spans, boundary and state add up."""

import json
import random
from dataclasses import dataclass, field

import pytest

from branches.evidence.domains import THREAD
from branches.ports import RuntimeImporter, SourceFile
from branches.rules.topology import judge_topology, parse_topology
from tests.adapters.agent_traces import IMPORTER, Trace, file_of, saved, the_run
from tests.adapters.places import KEY
from tests.adapters.source_runs import (
    LATER,
    a_file,
    bodies,
    check,
    edges,
    effects,
    everything,
    handoff_verdicts,
    read,
    stop_states,
)


@dataclass(frozen=True)
class Gives:
    """What a file gives: the state of its stop, of each hand-over by receiver, its effects and its edges."""

    stop: str
    cause: str | None
    handoffs: dict[str, str] = field(default_factory=dict)
    effects: tuple[tuple[str, str | None], ...] = ()
    edges: tuple[str, ...] = ()


GIVES = {
    "trace_agent_as_tool.json": Gives(
        "false_complete",
        "natural_finish",
        # The agent called as a tool is an edge, and its caller's call is an effect like any other: the
        # function round it may have done more than ask the agent.
        effects=(("ask_expert", "acknowledged"),),
        edges=("boss>expert:agent_as_tool ok",),
    ),
    # The rules have no word for a guardrail; what was refused before it was answered was refused.
    "trace_guard_in.json": Gives("failed", "provider_error"),
    "trace_handoff_nosens.json": Gives(
        # The model finished as if nothing had been, and one of its tools had failed for good.
        "failed",
        "natural_finish",
        {"billing": "false_success"},
        # The texts are hidden, so no output shows: that the loop went on shows that the call came back.
        (("lookup", "acknowledged"), ("boom", "failed")),
        ("triage>billing:handoff ok",),
    ),
    "trace_handoff_two.json": Gives(
        "false_complete",
        "natural_finish",
        # Two were asked for at once, and the SDK took the first: nobody has what was meant for the other.
        {"legal": "orphaned", "billing": "false_success"},
        # Each wish is an edge that is not ok, and the one that was taken is seen once more.
        edges=(
            "triage>billing:handoff error",
            "triage>legal:handoff error",
            "triage>billing:handoff ok",
        ),
    ),
    # Bare spans: nothing tells a loop that finished from a stream that was cancelled, which leaves the same
    # ones. So neither is there a claim that the hand-over was completed, and by now nothing moved for long.
    "trace_http_chat_nosens.json": Gives(
        "uncertain", None, {"closer": "stuck"}, edges=("opener>closer:handoff ok",)
    ),
    "trace_http_responses_nosens.json": Gives(
        "uncertain", None, {"closer": "stuck"}, edges=("opener>closer:handoff ok",)
    ),
    "trace_max_turns.json": Gives("bounded_stop", "step_limit", effects=(("lookup", "acknowledged"),) * 3),
    # The call's own span is missing here, but its hook fired: it may have happened.
    "trace_run_timeout.json": Gives("stuck", "timeout", effects=(("slow2", None),)),
    # The result of a tool was the last output: that is the tool's word for done.
    "trace_stop_at_tools.json": Gives("false_complete", "done_tool", effects=(("lookup", "acknowledged"),)),
    "trace_stream_cancel_now.json": Gives("bounded_stop", "user_abort"),
    # The model said that all was good, and its output looks like any other.
    "trace_tool_error_soft.json": Gives("failed", "natural_finish", effects=(("boom", "failed"),)),
    "trace_tool_timeout_raise.json": Gives("failed", "tool_error", effects=(("slow", "failed"),)),
    # What waits for a person (a refund) was not sent. Nobody is named, and no time: it is not routed.
    "waiting.json": Gives(
        "waiting_unrouted",
        "approval_requested",
        {"billing": "waiting"},
        (("lookup", "acknowledged"),),
        ("triage>billing:handoff ok",),
    ),
    "approved.json": Gives(
        "false_complete",
        "natural_finish",
        {"billing": "false_success"},
        (("lookup", "acknowledged"), ("refund", "acknowledged")),
        ("triage>billing:handoff ok",),
    ),
}


@pytest.mark.parametrize("name", GIVES)
def test_each_captured_file_gives_what_the_table_says(name: str) -> None:
    found = read(IMPORTER, file_of(name))
    assert found.refused == ()
    (run,) = [run for run in found.runs if bodies(run, "stopped")]
    check(run)
    (stop,) = bodies(run, "stopped")
    handoffs = {name: str(verdict.state) for name, verdict in handoff_verdicts(run).items()}
    assert GIVES[name] == Gives(
        stop_states(run)[0], stop["stop_cause"], handoffs, tuple(effects(run)), tuple(edges(run))
    )


def test_it_fulfils_its_port() -> None:
    assert isinstance(IMPORTER, RuntimeImporter)
    assert IMPORTER.versions == ("0.24.0",)


def test_a_limit_is_a_condition_with_the_number_that_was_exceeded() -> None:
    (stop,) = bodies(the_run(file_of("trace_max_turns.json")), "stopped")
    assert stop["policy"]["conditions"] == [{"type": "step_count", "n": 3}]
    assert stop["steps"] == [{"tools": ["lookup"], "tokens": 0}] * 3


def test_the_tool_whose_result_was_the_output_is_the_done_tool() -> None:
    (stop,) = bodies(the_run(file_of("trace_stop_at_tools.json")), "stopped")
    assert (stop["done_tool"], stop["loop"]) == ("lookup", "claimed")


def test_a_wait_names_no_owner_and_no_deadline_and_a_token_as_a_digest() -> None:
    (stop,) = bodies(the_run(file_of("waiting.json")), "stopped")
    token = stop["approval"].pop("resume_token")
    assert token.startswith("hmac-sha256:0badc0de:")
    assert stop["approval"] == {"owner": None, "deadline": None}
    assert stop["policy"]["conditions"] == [{"type": "step_count", "n": 10}]


def test_the_ids_of_a_hand_over_are_opaque_and_its_promise_is_the_output_of_the_run() -> None:
    run = the_run(file_of("trace_handoff_two.json"))
    said = everything(read(IMPORTER, file_of("trace_handoff_two.json")))
    assert "span_" not in said
    assert "trace_" not in said
    delegated = [body for body in bodies(run, "handoff") if body["event"] == "delegated"]
    assert [body["receiver"] for body in delegated] == ["legal", "billing"]
    assert len({body["operation"] for body in delegated}) == len({body["handoff"] for body in delegated}) == 2
    assert len({body["expected_artifact"] for body in delegated}) == 1
    assert {body["trace"] for body in bodies(run, "handoff")} == {run.external_ref}


def test_two_hand_overs_at_once_are_an_ambiguous_route_by_the_rules() -> None:
    run = the_run(file_of("trace_handoff_two.json"))
    wanted = [("triage", "billing"), ("triage", "legal")]
    contract = {
        "version": "1",
        "agents": ["triage", "billing", "legal"],
        "edges": [{"from": sender, "to": receiver, "kind": "handoff"} for sender, receiver in wanted],
        "phases": {"main": [["triage>billing:handoff", "triage>legal:handoff"]]},
    }
    judged = {
        "pinned_version": "1",
        "phase": "main",
        "parent_terminal": True,
        "outcome_receipt": False,
        "evidence": "unknown",
        "now": LATER,
        "deadline": None,
        "dependency": None,
        "last_progress_at": None,
    }
    events = [
        {
            "event_id": each.place,
            "version": "1",
            "at": each.at,
            **{name: each.body[name] for name in ("from", "to", "kind", "status")},
        }
        for each in run.receipts
        if each.kind == "interaction"
    ]
    verdict = judge_topology(parse_topology({"contract": contract, "run": judged, "events": events}))
    assert (verdict.verdict, verdict.reasons) == ("ambiguous_route", ("triage>billing:handoff",))


def test_the_run_is_named_by_its_trace() -> None:
    run = the_run(file_of("trace_max_turns.json"))
    trace = saved("trace_max_turns.json")["events"][0]["export"]["id"]
    assert run.external_ref == KEY.digest(THREAD, trace)
    assert run.receipts[0].body["runtime"] == {"name": "openai-agents", "version": "0.24.0"}
    assert run.receipts[0].at == "2026-11-30T11:08:35.758920+00:00"


def test_a_span_that_came_late_stands_in_its_own_run() -> None:
    files = [file_of("trace_guard_in.json"), file_of("trace_run_timeout.json")]
    runs = {run.external_ref: run for run in read(IMPORTER, *files).runs}
    late = runs[the_run(files[1]).external_ref]
    assert len(runs) == 2
    assert effects(late) == [("slow2", None)]
    (stop,) = bodies(late, "stopped")
    assert (stop["stop_cause"], stop["steps"][0]["tools"]) == ("timeout", ["slow2"])


def test_a_late_piece_alone_says_nothing_of_the_end_and_names_the_same_operation() -> None:
    alone = read(IMPORTER, file_of("trace_guard_in.json"))
    (piece,) = [run for run in alone.runs if not bodies(run, "stopped")]
    check(piece)
    whole = the_run(file_of("trace_run_timeout.json"))
    assert piece.external_ref == whole.external_ref
    (late,), (hooked,) = bodies(piece, "effect_intended"), bodies(whole, "effect_intended")
    assert late["operation_key"] == hooked["operation_key"]
    assert late["payload"] != hooked["payload"]  # what was sent is only known from the span


@pytest.mark.parametrize("seed", range(5))
def test_spans_twice_and_in_any_order_give_the_same_runs(seed: int) -> None:
    names = [name for name in GIVES if name.startswith("trace_")]
    expected = read(IMPORTER, *map(file_of, names)).runs
    dice = random.Random(seed)
    files = []
    for name in names:
        value = saved(name)
        events = value if isinstance(value, list) else value["events"]
        events += [each for each in events if dice.random() < 0.5]
        dice.shuffle(events)
        files.append(a_file(name, value))
    files += [file_of(dice.choice(names))]
    dice.shuffle(files)
    found = read(IMPORTER, *files)
    assert found.runs == expected
    assert found.refused == ()


def test_the_events_of_one_trace_may_come_in_several_files() -> None:
    whole = saved("trace_http_chat_nosens.json")
    halves = [a_file("one", whole[:4]), a_file("two", whole[4:])]
    assert read(IMPORTER, *halves).runs == read(IMPORTER, file_of("trace_http_chat_nosens.json")).runs


def test_one_export_a_line_and_a_batch_of_exports_are_read_as_a_list_is() -> None:
    events = saved("trace_http_chat_nosens.json")
    expected = read(IMPORTER, file_of("trace_http_chat_nosens.json")).runs
    lines = "\n".join(json.dumps(each["export"]) for each in events)
    assert read(IMPORTER, SourceFile("lines", lines.encode())).runs == expected
    assert read(IMPORTER, a_file("batch", {"data": [each["export"] for each in events]})).runs == expected


def test_of_two_versions_of_a_span_the_one_that_ended_counts() -> None:
    trace = Trace().loop(("lookup", "ok"))
    began = json.loads(json.dumps(trace.events))
    for event in began[1:]:
        event["export"]["ended_at"] = None
    files = trace.file("b"), a_file("a", began)
    assert read(IMPORTER, *files).runs == read(IMPORTER, *reversed(files)).runs == (the_run(trace.file()),)
