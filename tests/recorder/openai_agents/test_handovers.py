"""A retry keeps its operation: the same pair again, a failed hand-over, an agent called again, a branch."""

import asyncio
from typing import Any

from agents import Agent

from branches.evidence.domains import REF
from debugger.recorder.conformance.gate import KEY
from debugger.recorder.openai_agents.handovers import Handover, Handovers
from debugger.recorder.record import RunRecord
from tests.recorder.openai_agents.crew import Bench, Scripted, calls, says
from tests.recorder.openai_agents.test_branching import branch_of, fork, resume, waiting

TO_BILLING = [calls("transfer_to_billing", "h1")]
TO_TRIAGE = [calls("transfer_to_triage", "h2")]


def ring(*script: Any) -> Agent[Any]:
    """Return triage and billing, each of which can hand over to the other."""
    model = Scripted(*script)
    billing = Agent(name="billing", model=model)
    triage = Agent(name="triage", model=model, handoffs=[billing])
    billing.handoffs = [triage]
    return triage


def told(bench: Bench, run: str | None = None) -> list[tuple[str, str]]:
    """Return the letter of each event's operation, by its first event, and the event."""
    bodies = bench.bodies("handoff", run)
    letters = {
        own: chr(97 + place) for place, own in enumerate(dict.fromkeys(b["operation"] for b in bodies))
    }
    return [(letters[each["operation"]], each["event"]) for each in bodies]


def live(bench: Bench) -> tuple[RunRecord, Handovers]:
    """Return a run that has begun, and its hand-overs without the SDK round them."""
    record = bench.record(bench.crew()).record
    return record, Handovers(record, "trace_" + "0" * 32)


def test_the_same_pair_again_is_a_new_attempt_and_the_old_one_is_given_up(bench: Bench) -> None:
    bench.run(ring(TO_BILLING, TO_TRIAGE, [calls("transfer_to_billing", "h3")], [says()]))
    assert told(bench) == [
        ("a", "delegated"),
        ("a", "accepted"),
        ("a", "waiting"),
        ("b", "delegated"),
        ("b", "accepted"),
        ("b", "waiting"),
        ("a", "released"),
        ("a", "delegated"),
        ("a", "accepted"),
        ("a", "completed"),
    ]
    assert len({each["handoff"] for each in bench.bodies("handoff")}) == 3
    assert bench.handoffs()["billing"] == ("false_success", ["unverified"])


def test_every_hand_over_of_the_outer_loop_promises_the_declared_outcome(bench: Bench) -> None:
    bench.run(bench.crew(TO_BILLING, [says()]))
    promised = [each["expected_artifact"] for each in bench.bodies("handoff") if "receiver" in each]
    assert promised == [KEY.digest(REF, "answered")]


def test_what_no_span_shows_is_handed_over_by_name(bench: Bench) -> None:
    run = bench.record(bench.crew())
    run.operation("a letter").delegate("legal", by="triage").accepted()
    assert bench.handoffs() == {"legal": ("working", [])}


def test_an_answered_approval_is_progress_and_then_the_end(bench: Bench) -> None:
    run = waiting(bench)
    assert bench.handoffs() == {"billing": ("waiting", ["dependency:approval"])}
    asyncio.run(run.resume(lambda _: True))
    assert [event for _, event in told(bench)] == [
        "delegated", "accepted", "waiting", "progress", "completed",
    ]  # fmt: skip


def test_a_branch_hands_the_same_operation_over_under_a_handoff_of_its_own(bench: Bench) -> None:
    waiting(bench)
    parent = bench.bodies("handoff")
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, TO_BILLING, [says()]) == "natural_finish"
    own = bench.bodies("handoff", branch_of(envelope))
    assert {each["operation"] for each in own} == {each["operation"] for each in parent}
    assert not {each["handoff"] for each in own} & {each["handoff"] for each in parent}


def test_a_hand_over_that_failed_is_given_up_and_tried_again_under_its_operation(bench: Bench) -> None:
    _, handovers = live(bench)
    handovers.agent_began("", "triage", None)
    handovers.handed_over("", Handover("triage", "billing"), (), failed=True)
    assert bench.handoffs() == {"billing": ("orphaned", ["released"])}
    handovers.handed_over("", Handover("triage", "billing"), (), failed=False)
    handovers.agent_began("", "billing", None)
    assert told(bench) == [
        ("a", "delegated"), ("a", "released"), ("a", "delegated"), ("a", "accepted"),
    ]  # fmt: skip


def _called(handovers: Handovers, call: str) -> None:
    handovers.agent_began(call, "billing", "triage")
    handovers.handed_over(call, Handover("billing", "legal"), (), failed=False)
    handovers.agent_began(call, "legal", "triage")


def test_an_agent_that_is_called_twice_at_once_hands_two_operations_over(bench: Bench) -> None:
    _, handovers = live(bench)
    _called(handovers, "c1")
    _called(handovers, "c2")
    handovers.tool_ended("c2", "ok")
    handovers.tool_ended("c1", "ok")
    events = ("delegated", "accepted")
    assert told(bench) == [
        *(("a", each) for each in events), *(("b", each) for each in events),
        ("b", "completed"), ("a", "completed"),
    ]  # fmt: skip
    promised = {each["expected_artifact"] for each in bench.bodies("handoff") if "receiver" in each}
    assert KEY.digest(REF, "answered") not in promised


def test_an_agent_that_failed_as_a_tool_and_is_called_again_goes_on_with_its_operation(bench: Bench) -> None:
    _, handovers = live(bench)
    _called(handovers, "c1")
    handovers.tool_ended("c1", "error")
    _called(handovers, "c2")
    handovers.tool_ended("c2", "ok")
    _called(handovers, "c3")
    assert told(bench) == [
        ("a", "delegated"), ("a", "accepted"), ("a", "released"),
        ("a", "delegated"), ("a", "accepted"), ("a", "completed"),
        ("b", "delegated"), ("b", "accepted"),
    ]  # fmt: skip
    assert handovers.done == {next(iter(handovers.done)): [1]}
