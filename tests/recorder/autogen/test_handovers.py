"""A retry keeps its operation: the same pair again, also in a later task, and a decision in between."""

import asyncio
from typing import Any

import pytest
from autogen_agentchat.conditions import MaxMessageTermination, TextMentionTermination

from branches.evidence.domains import REF
from debugger.recorder import autogen
from debugger.recorder.conformance.gate import KEY
from tests.recorder.autogen.teams import MARKER, Bench, agent, call, swarm

ENDS = TextMentionTermination("DONE", sources=["bob"])


def told(bench: Bench) -> list[tuple[str, str]]:
    """Return the letter of each event's operation, by its first event, and the event."""
    bodies = bench.delivered().bodies("handoff")
    letters = {
        own: chr(97 + place) for place, own in enumerate(dict.fromkeys(b["operation"] for b in bodies))
    }
    return [(letters[each["operation"]], each["event"]) for each in bodies]


def tasks(bench: Bench, team: Any, *given: str) -> Any:
    async def run() -> Any:
        started = await autogen.record(bench.recorder, team, thread_id="monday")
        for task in given:
            await started.run_task(f"{task} {MARKER}")
        return started

    return asyncio.run(run())


def test_the_same_pair_again_is_a_new_attempt_and_the_old_one_is_given_up(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), call("transfer_to_bob", "2"), handoffs=["bob"])
    bob = agent("bob", call("transfer_to_alice"), "DONE", handoffs=["alice"])
    tasks(bench, swarm(alice, bob, termination_condition=ENDS), "do it")
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
    assert [str(each.state) for each in bench.handoffs()] == ["false_success", "waiting"]
    promised = {each["expected_artifact"] for each in bench.bodies("handoff") if "receiver" in each}
    assert promised == {KEY.digest(REF, "mail-sent")}


def test_what_was_done_and_is_handed_over_once_more_is_another_operation(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), call("transfer_to_bob", "2"), handoffs=["bob"])
    bob = agent("bob", "DONE", call("transfer_to_alice"), "DONE", handoffs=["alice"])
    tasks(bench, swarm(alice, bob, termination_condition=ENDS), "first", "second")
    letters = [letter for letter, event in told(bench) if event == "delegated"]
    assert letters == ["a", "b", "c"]
    assert ("a", "released") not in told(bench)


def test_a_task_that_ran_into_its_limit_goes_on_with_the_attempt_that_is_open(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), handoffs=["bob"])
    bob = agent("bob", "still at it", "DONE")
    ends = MaxMessageTermination(3) | ENDS
    tasks(bench, swarm(alice, bob, termination_condition=ends), "do it", "go on")
    assert [event for _, event in told(bench)] == ["delegated", "accepted", "completed"]


def test_what_no_message_shows_is_handed_over_by_name(bench: Bench) -> None:
    async def run() -> Any:
        team = swarm(agent("alice", "DONE"), agent("bob"), termination_condition=ENDS)
        return await autogen.record(bench.recorder, team, thread_id="monday")

    asyncio.run(run()).operation("a letter").delegate("bob", by="alice").rejected()
    assert told(bench) == [("a", "delegated"), ("a", "rejected")]


@pytest.mark.parametrize("is_given_up", [False, True])
def test_the_receiver_takes_up_the_attempt_that_is_open_whoever_made_it(
    bench: Bench, is_given_up: bool
) -> None:
    alice = agent("alice", call("transfer_to_bob"), handoffs=["bob"])
    team = swarm(alice, agent("bob", "DONE"), termination_condition=MaxMessageTermination(2) | ENDS)

    async def run() -> Any:
        started = await autogen.record(bench.recorder, team, thread_id="monday")
        await started.run_task(f"do it {MARKER}")
        (body,) = [each for each in bench.delivered().bodies("handoff") if each["event"] == "delegated"]
        work = started.record.handoffs.known(body["operation"])
        assert work is not None
        if is_given_up:
            work.delegate("bob", by="alice")
        await started.run_task(f"go on {MARKER}")

    asyncio.run(run())
    events = [event for _, event in told(bench)]
    again = ["released", "delegated"] if is_given_up else []
    assert events == ["delegated", *again, "accepted"]
    handoffs = [each["handoff"] for each in bench.bodies("handoff")]
    assert handoffs[-1] == handoffs[-2]
