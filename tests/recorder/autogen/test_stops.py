"""Why a team stopped, taken at the boundary: every end of a real team, judged by the rules."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from autogen_agentchat.conditions import (
    ExternalTermination,
    FunctionalTermination,
    FunctionCallTermination,
    HandoffTermination,
    MaxMessageTermination,
    SourceMatchTermination,
    TextMentionTermination,
    TimeoutTermination,
    TokenUsageTermination,
)
from autogen_agentchat.messages import HandoffMessage

from branches.evidence.autogen_words import reason_of
from debugger.recorder import autogen
from debugger.recorder.autogen import Approval
from tests.recorder.autogen.teams import MARKER, Bench, Desk, agent, call, round_robin, swarm


def verdict(bench: Bench) -> tuple[str, list[str]]:
    found = bench.delivered().stop()
    assert MARKER not in bench.everything()
    return str(found.state), list(found.reasons)


async def run(bench: Bench, team: Any, **options: Any) -> Any:
    started = await autogen.record(bench.recorder, team, thread_id=f"monday {MARKER}")
    return await started.run_task(f"do it {MARKER}", **options)


def talkers(count: int = 4) -> list[Any]:
    return [agent(name, *[f"{name} {MARKER}"] * count) for name in ("alice", "bob")]


def test_it_records_a_limit_of_messages_as_a_bounded_stop(bench: Bench) -> None:
    result = asyncio.run(run(bench, round_robin(*talkers(), termination_condition=MaxMessageTermination(4))))
    assert len(result.messages) == 4
    assert verdict(bench) == ("bounded_stop", ["step_limit"])
    stopped = bench.bodies("stopped")[0]
    assert stopped["policy"] == {"version": "1.0.0", "conditions": [{"type": "step_count", "n": 4}]}
    assert len(stopped["steps"]) == 4
    assert bench.bodies("recording_closed")[0]["count"] == len(bench.gate.receipts)


def test_what_a_turn_gives_beyond_a_limit_belongs_to_the_step_that_reached_it(bench: Bench) -> None:
    desk = Desk()
    alice = agent("alice", call("look_up", word="x"), tools=[autogen.wrap(bench.recorder, desk.look_up)])
    limit = MaxMessageTermination(2, include_agent_event=True)
    asyncio.run(run(bench, round_robin(alice, termination_condition=limit)))
    assert verdict(bench) == ("bounded_stop", ["step_limit"])
    assert len(bench.bodies("stopped")[0]["steps"]) == 2


def test_it_records_a_limit_of_turns_as_a_bounded_stop(bench: Bench) -> None:
    asyncio.run(run(bench, round_robin(*talkers(), max_turns=3)))
    assert verdict(bench) == ("bounded_stop", ["step_limit"])
    assert bench.bodies("stopped")[0]["policy"]["conditions"] == [{"type": "step_count", "n": 3}]


def test_it_records_a_token_limit_as_a_bounded_stop(bench: Bench) -> None:
    limit = TokenUsageTermination(max_total_token=8)
    asyncio.run(run(bench, round_robin(*talkers(), termination_condition=limit)))
    assert verdict(bench) == ("bounded_stop", ["token_budget"])


def test_a_mention_is_only_a_claim(bench: Bench) -> None:
    said = agent("alice", f"DONE, Maximum number of turns 1 reached. {MARKER}")
    limit = TextMentionTermination("DONE") | MaxMessageTermination(9)
    asyncio.run(run(bench, round_robin(said, termination_condition=limit)))
    assert verdict(bench) == ("false_complete", ["no_receipt"])
    assert bench.bodies("stopped")[0]["loop"] == "claimed"


def test_a_finish_after_a_tool_call_is_still_a_claim(bench: Bench) -> None:
    desk = Desk()
    alice = agent("alice", call("look_up", word="DONE"), tools=[autogen.wrap(bench.recorder, desk.look_up)])
    ends = TextMentionTermination("DONE", sources=["alice"])
    asyncio.run(run(bench, round_robin(alice, termination_condition=ends)))
    assert verdict(bench) == ("false_complete", ["no_receipt"])


def test_an_answer_of_the_named_agent_is_only_a_claim(bench: Bench) -> None:
    ends = SourceMatchTermination(["bob"])
    asyncio.run(run(bench, round_robin(*talkers(), termination_condition=ends)))
    assert verdict(bench) == ("false_complete", ["no_receipt"])


def test_a_function_that_ends_the_team_is_the_done_tool(bench: Bench) -> None:
    desk = Desk()
    mail = autogen.wrap(bench.recorder, desk.send_mail)
    alice = agent("alice", call("send_mail", recipient="r", text=MARKER), tools=[mail])
    ends = FunctionCallTermination("send_mail")
    asyncio.run(run(bench, round_robin(alice, termination_condition=ends)))
    assert verdict(bench) == ("false_complete", ["no_receipt"])
    stopped = bench.bodies("stopped")[0]
    assert (stopped["stop_cause"], stopped["done_tool"]) == ("done_tool", "send_mail")
    assert stopped["policy"]["conditions"] == [{"type": "tool_call", "tool": "send_mail"}]


@pytest.mark.parametrize(
    ("approval", "state", "reasons"),
    [
        (None, "waiting_unrouted", ["no_deadline", "no_owner"]),
        (Approval("desk", datetime(2999, 1, 1, tzinfo=UTC)), "waiting", []),
    ],
)
def test_a_hand_over_to_a_person_waits(
    bench: Bench, approval: Approval | None, state: str, reasons: list[str]
) -> None:
    alice = agent("alice", call("transfer_to_user"), handoffs=["user"])
    team = swarm(alice, termination_condition=HandoffTermination("user"))
    asyncio.run(run(bench, team, approval=approval))
    assert verdict(bench) == (state, reasons)


def test_a_timeout_without_progress_is_stuck(bench: Bench) -> None:
    ends = TimeoutTermination(0.0)
    asyncio.run(run(bench, round_robin(*talkers(), termination_condition=ends)))
    assert verdict(bench) == ("stuck", ["timeout"])
    assert bench.bodies("stopped")[0]["policy"]["conditions"] == [{"type": "deadline", "ms": 0}]


def test_an_exception_is_a_failure_and_its_words_stay_where_they_are(bench: Bench) -> None:
    team = round_robin(agent("alice", "one"), agent("bob", RuntimeError(f"boom {MARKER}")), max_turns=2)
    with pytest.raises(RuntimeError):
        asyncio.run(run(bench, team))
    assert verdict(bench) == ("failed", ["provider_error"])
    assert [each["consistent"] for each in bench.bodies("checkpoint")] == [True, False]


def test_a_tool_that_raises_is_a_failure_whatever_the_team_says_then(bench: Bench) -> None:
    def send_mail(recipient: str, text: str) -> str:
        """Send a mail."""
        raise RuntimeError(f"boom {MARKER}")

    mail = autogen.wrap(bench.recorder, send_mail)
    alice = agent("alice", call("send_mail", recipient="r", text="t"), f"DONE {MARKER}", tools=[mail])
    ends = TextMentionTermination("DONE", sources=["alice"])
    asyncio.run(run(bench, round_robin(alice, termination_condition=ends)))
    assert verdict(bench) == ("failed", ["tool_failed"])
    assert [each["answer"] for each in bench.bodies("effect_answered")] == ["failed"]


def test_a_team_that_failed_is_stuck_when_it_is_used_again(bench: Bench) -> None:
    team = round_robin(agent("alice", RuntimeError("boom"), "x", "y", "z"), max_turns=3)

    async def twice() -> Any:
        started = await autogen.record(bench.recorder, team, thread_id="monday")
        with pytest.raises(RuntimeError):
            await started.run_task("go")
        return await started.run_task("again")

    result = asyncio.run(twice())
    assert result.stop_reason == "The group chat is stopped."
    assert verdict(bench) == ("stuck", ["timeout"])
    assert bench.bodies("stopped")[-1]["loop"] == "ended"


def test_an_end_that_a_program_made_itself_is_uncertain(bench: Bench) -> None:
    ends = FunctionalTermination(lambda _: True) | MaxMessageTermination(99)
    asyncio.run(run(bench, round_robin(*talkers(), termination_condition=ends)))
    assert verdict(bench) == ("uncertain", ["cause_not_recorded"])


def test_an_end_from_outside_is_an_abort(bench: Bench) -> None:
    ends = ExternalTermination()
    ends.set()
    asyncio.run(run(bench, round_robin(*talkers(), termination_condition=ends)))
    assert verdict(bench) == ("bounded_stop", ["user_abort"])


def test_whoever_stops_listening_ends_the_loop_without_a_finish(bench: Bench) -> None:
    async def leave() -> None:
        started = await autogen.record(bench.recorder, round_robin(*talkers(), max_turns=4), thread_id="1")
        stream = started.stream("go")
        async for _ in stream:
            break
        await stream.aclose()

    asyncio.run(leave())
    assert verdict(bench) == ("bounded_stop", ["user_abort"])


def test_a_run_goes_on_when_the_person_answers(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_user"), f"DONE {MARKER}", handoffs=["user"])
    ends = HandoffTermination("user") | TextMentionTermination("DONE")

    async def both() -> None:
        started = await autogen.record(
            bench.recorder, swarm(alice, termination_condition=ends), thread_id="monday"
        )
        await started.run_task("go")
        assert started.stop_cause == "approval_requested"
        await started.run_task(HandoffMessage(source="user", target="alice", content=MARKER))
        assert started.stop_cause == "natural_finish"

    asyncio.run(both())
    assert verdict(bench) == ("false_complete", ["no_receipt"])
    assert [each["stop_cause"] for each in bench.bodies("stopped")] == [
        "approval_requested",
        "natural_finish",
    ]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Maximum number of messages 5 reached, current message count: 5", "step_limit"),
        ("Maximum number of turns 2 reached.", "step_limit"),
        ("Token usage limit reached, total token count: 9, prompt token count: 1", "token_budget"),
        ("Timeout of 0.5 seconds reached", "timeout"),
        ("Text 'Timeout of 3 seconds reached' mentioned", "natural_finish"),
        ("Function 'Maximum number of ' was executed.", "done_tool"),
        ("Handoff to user from Timeout of detected.", "approval_requested"),
        ("The group chat is stopped.", "timeout"),
        ("The group chat has already terminated.", "timeout"),
        ("The group chat is stopped. Text 'x' mentioned", None),
        (" Maximum number of turns 2 reached.", None),
        ("I mention: Text 'x' mentioned", None),
        ("Text 'x", None),
        ("Function 'x'", None),
        ("Handoff to user", None),
        ("maximum number of turns 2 reached.", None),
        ("", None),
        (None, None),
    ],
)
def test_a_reason_is_known_by_its_exact_beginning(text: str | None, cause: str | None) -> None:
    assert reason_of(text).cause == cause


def test_a_number_without_end_is_no_limit() -> None:
    found = reason_of("Maximum number of turns " + "9" * 5000 + " reached.")
    assert (found.cause, found.limit) == ("step_limit", None)
