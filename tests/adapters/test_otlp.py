"""The OTLP importer on requests that real programs sent: agents, edges, calls, and why they stopped."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from branches.ports import RuntimeImporter, SourceFile, SourceRead, SourceReceipt
from branches.queries.run_stop import stop_verdict
from debugger.adapters.runtimes.otlp import OtlpImporter
from tests.adapters.otlp_requests import bodies, captured, edges, read, receipts
from tests.adapters.places import KEY, MARKER

LANGGRAPH = "lg_openinference_01_v1_traces.pb"
OPENAI_AGENTS = "oa_openinference_01_v1_traces.pb"
MANUAL = (
    "manual_pb_plain_01_v1_traces.pb",
    "manual_pb_gzip_01_v1_traces.pb.gz",
    "manual_json_plain_01_v1_traces.json",
    "manual_json_gzip_01_v1_traces.json.gz",
)
ALL = (*MANUAL, LANGGRAPH, OPENAI_AGENTS)
RUNS = {
    **dict.fromkeys(MANUAL, ("conv-1", "conv-1-branch-A")),
    LANGGRAPH: ("thread-1",),
    OPENAI_AGENTS: ("3a43d1bc90e4798b0ed3457395c33a2c", "492379e4cb54364c947023dc781ca4b2"),
}


def verdict(receipt: SourceReceipt) -> tuple[str, tuple[str, ...]]:
    recorded: Any = SimpleNamespace(body=dict(receipt.body))  # the rules look at nothing else of it
    found = stop_verdict(recorded, None)
    assert found is not None
    return str(found.state), tuple(found.reasons)


def stops(found: SourceRead) -> list[tuple[object, ...]]:
    return [
        (each.body["stop_cause"], each.body["loop"], *verdict(each)) for each in receipts(found, "stopped")
    ]


def calls(found: SourceRead) -> list[tuple[object, ...]]:
    answers = {body["operation_key"]: body["answer"] for body in bodies(found, "effect_answered")}
    return [
        (each.agent, each.body["tool"], answers.get(each.body["operation_key"]))
        for each in receipts(found, "effect_intended")
    ]


def test_it_fulfils_the_importers_port() -> None:
    assert isinstance(OtlpImporter(), RuntimeImporter)
    assert OtlpImporter().versions == ("1.45.2",)


@pytest.mark.parametrize("name", ALL)
def test_it_takes_every_captured_request_and_none_of_its_content(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    found = read(captured(name))
    assert found.refused == ()
    assert [each.external_ref for each in found.runs] == [KEY.digest("thread", ref) for ref in RUNS[name]]
    assert MARKER not in repr(found)
    assert "Traceback" not in repr(found)
    assert caplog.records == []


@pytest.mark.parametrize("name", ALL)
def test_every_run_starts_as_imported_under_the_digest_of_the_runtimes_own_id(name: str) -> None:
    for run in read(captured(name)).runs:
        started = run.receipts[0]
        assert (started.kind, started.body["recording"]) == ("run_started", "imported")
        assert started.body["external_ref"] == run.external_ref
        assert started.body["runtime"] == {"name": "otlp", "version": None}
        assert [each.kind for each in run.receipts].count("run_started") == 1
        assert started.at == min(each.at for each in run.receipts)


@pytest.mark.parametrize("name", MANUAL)
def test_it_reads_a_hand_instrumented_program_alike_in_every_encoding(name: str) -> None:
    found = read(captured(name))
    assert {each.agent for run in found.runs for each in run.receipts} == {None, "triage", "billing"}
    assert edges(found) == [("triage", "billing", "handoff", "error")]
    assert calls(found) == [
        ("triage", "transfer_to_billing", "acknowledged"),
        ("billing", "refund", "no_answer"),  # it timed out: nobody knows
    ]
    assert stops(found) == [
        ("tool_error", "ended", "failed", ("tool_error", "tool_failed")),
        ("natural_finish", "ended", "false_complete", ("no_receipt",)),
    ]
    assert receipts(found, "stopped")[0].body["steps"] == [{"tools": ["transfer_to_billing"], "tokens": 14}]


def test_a_branch_of_a_conversation_is_a_run_of_its_own_and_no_edge() -> None:
    _, branch = read(captured(MANUAL[0])).runs
    assert [each.kind for each in branch.receipts] == ["run_started", "stopped"]


def test_a_langgraph_thread_is_one_run_whose_interrupt_waits() -> None:
    found = read(captured(LANGGRAPH))
    assert stops(found) == [
        ("approval_requested", "ended", "waiting_unrouted", ("no_deadline", "no_owner")),
        ("natural_finish", "claimed", "false_complete", ("no_receipt",)),
        ("provider_error", "ended", "failed", ("provider_error",)),
    ]
    approval = receipts(found, "stopped")[0].body["approval"]
    token = KEY.digest("ref", "285f0203-e1bf-80fa-3c42-af11ded64a37")
    assert approval == {"owner": None, "deadline": None, "resume_token": token}


def test_a_langgraph_step_leads_to_the_next_and_an_interrupted_node_fulfils_nothing() -> None:
    found = read(captured(LANGGRAPH))
    assert edges(found) == [("triage", "billing", "step", "unset")]
    # The tool ran to its end before the question was asked, and ran again with the answer.
    assert calls(found) == [("billing", "lookup", "acknowledged"), ("billing", "lookup", "acknowledged")]
    assert len({body["operation_key"] for body in bodies(found, "effect_intended")}) == 2


def test_an_openai_agents_call_that_awaits_approval_is_no_effect() -> None:
    waiting, resumed = read(captured(OPENAI_AGENTS)).runs
    first, second = SourceRead((waiting,)), SourceRead((resumed,))
    assert calls(first) == [("billing", "lookup", "acknowledged"), ("billing", "boom", "failed")]
    assert edges(first) == [("triage", "billing", "handoff", "ok")]
    assert stops(first) == [("approval_requested", "ended", "failed", ("tool_failed",))]
    assert receipts(first, "stopped")[0].body["steps"] == [
        {"tools": [], "tokens": None},
        {"tools": ["lookup", "boom"], "tokens": None},
        {"tools": ["refund"], "tokens": None},
    ]
    assert calls(second) == [("billing", "refund", "acknowledged")]
    assert edges(second) == []
    assert stops(second) == [("natural_finish", "claimed", "false_complete", ("no_receipt",))]


def test_all_files_together_are_the_same_runs_as_one_by_one() -> None:
    together = OtlpImporter().read([captured(name) for name in (LANGGRAPH, OPENAI_AGENTS, MANUAL[0])], KEY)
    alone = [run for name in (LANGGRAPH, OPENAI_AGENTS, MANUAL[0]) for run in read(captured(name)).runs]
    assert {run.external_ref: run for run in together.runs} == {run.external_ref: run for run in alone}


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_came_without_headers_is_known_by_how_it_begins(name: str) -> None:
    file = captured(name)
    assert read(SourceFile("file", file.content)).runs == read(file).runs
