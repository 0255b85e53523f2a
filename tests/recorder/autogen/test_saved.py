"""A state is loaded only where all of the team can be seen, or is declared; the recording stays honest."""

import asyncio
import functools
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TimeoutTermination
from autogen_agentchat.teams import SelectorGroupChat
from autogen_core.tools import FunctionTool

from debugger.recorder import autogen
from debugger.recorder.autogen import Approval, dumps
from tests.recorder.autogen.teams import Bench, Desk, FakeModel, agent, call, round_robin, swarm


def mails(bench: Bench, where: str) -> Any:
    def send_mail(recipient: str) -> str:
        """Send a mail."""
        return f"{where} {recipient}"

    return autogen.wrap(bench.recorder, send_mail)


def mails_by(bench: Bench, desk: Any) -> Any:
    def send_mail(recipient: str) -> str:
        """Send a mail."""
        return str(desk.send_mail(recipient, ""))

    return autogen.wrap(bench.recorder, send_mail)


def team(*tools: Any, **options: Any) -> Any:
    return round_robin(agent("alice", "a", tools=list(tools), **options), agent("bob", "b"), max_turns=1)


def loaded(bench: Bench, one: Any, other: Any) -> str:
    """Save a team and load its state into another one; returns the rule by which that was refused, or ""."""

    async def go() -> str:
        saved = await autogen.save_team(bench.recorder, one)
        try:
            await autogen.load_team(bench.recorder, other, saved)
        except autogen.SavedUnfit as error:
            return error.rule
        return ""

    return asyncio.run(go())


def test_a_tool_that_closes_over_another_plain_value_is_another_tool(bench: Bench) -> None:
    assert loaded(bench, team(mails(bench, "staging")), team(mails(bench, "staging"))) == ""
    refused = loaded(bench, team(mails(bench, "staging")), team(mails(bench, "production")))
    assert refused == "configuration_differs"


@pytest.mark.parametrize(
    "tool",
    [
        lambda bench: mails_by(bench, Desk()),
        lambda bench: autogen.wrap(bench.recorder, Desk().send_mail),
        lambda bench: mails_by(bench, [Desk()]),
    ],
    ids=["object", "method", "list"],
)
def test_a_tool_that_hides_something_is_refused_unless_it_is_declared(
    bench: Bench, tool: Callable[[Bench], Any]
) -> None:
    assert loaded(bench, team(tool(bench)), team(tool(bench))) == "configuration_unknown"
    bench.recorder.declare({"agents": [{"agent": "alice", "tools": ["send_mail desk=production"]}]})
    assert loaded(bench, team(tool(bench)), team(tool(bench))) == ""


def test_an_agent_that_does_not_dump_itself_has_to_be_declared_as_a_whole(bench: Bench) -> None:
    def crew() -> Any:
        by_desk = functools.partial(sent_by, Desk())  # the library has no dump for it
        return team(
            autogen.wrap(bench.recorder, FunctionTool(by_desk, description="Send.", name="send_mail"))
        )

    said = {"agent": "alice", "role": "writer", "model": "fake-1", "prompt": "be alice", "tools": ["desk v3"]}
    bench.recorder.declare({"agents": [said]})
    assert loaded(bench, crew(), crew()) == "configuration_unknown"
    bench.recorder.declare({"agents": [said], "routing": "round robin, one turn"})
    assert loaded(bench, crew(), crew()) == ""


def sent_by(desk: Any, recipient: str) -> str:
    return str(desk.send_mail(recipient, ""))


def chosen_by(choose: Any) -> Any:
    return SelectorGroupChat(
        [agent("alice", "a"), agent("bob", "b")], model_client=FakeModel(), selector_func=choose, max_turns=1
    )


def test_who_speaks_next_is_part_of_the_team(bench: Bench) -> None:
    def first(messages: Any) -> str:
        return "alice"

    def second(messages: Any) -> str:
        return "bob"

    desk = Desk()

    def by_desk(messages: Any) -> str:
        return str(desk.sent or "alice")

    assert loaded(bench, chosen_by(first), chosen_by(first)) == ""
    assert loaded(bench, chosen_by(first), chosen_by(second)) == "configuration_differs"
    assert loaded(bench, chosen_by(by_desk), chosen_by(by_desk)) == "configuration_unknown"
    bench.recorder.declare({"routing": "the desk chooses, v2"})
    assert loaded(bench, chosen_by(by_desk), chosen_by(by_desk)) == ""


def test_code_that_formats_what_a_tool_said_is_part_of_the_agent(bench: Bench) -> None:
    def shown(call: Any, result: Any) -> str:
        return "one"

    def hidden(call: Any, result: Any) -> str:
        return "two"

    crews = [team(mails(bench, "x"), tool_call_summary_formatter=each) for each in (shown, hidden)]
    assert loaded(bench, *crews) == "configuration_differs"


def closed(bench: Bench) -> int:
    return len(bench.delivered().bodies("recording_closed"))


def test_a_recording_that_stops_being_full_is_not_closed(bench: Bench) -> None:
    reached: list[int] = []

    def past() -> str:
        """Go past the recorder."""
        reached.append(1)
        return "done"

    async def go() -> None:
        alice = agent("alice", "first", call("past"), tools=[mails(bench, "x")])
        started = await autogen.record(bench.recorder, round_robin(alice, max_turns=1), thread_id="1")
        await started.run_task("go")
        assert closed(bench) == 1
        alice._workbench[0]._tools.append(FunctionTool(past, description="Past."))  # type: ignore[attr-defined]
        await started.run_task("more")

    asyncio.run(go())
    assert bench.gate.started()["recording"] == "full"
    assert (reached, closed(bench)) == ([1], 1)
    assert len(bench.bodies("stopped")) == 2
    assert "recording_fell" in bench.recorder.problems


def test_a_tool_whose_call_was_replaced_is_not_recorded(bench: Bench) -> None:
    mail = mails(bench, "x")

    async def go() -> str:
        await autogen.record(bench.recorder, team(mail), thread_id="1")
        bench.delivered()
        return str(bench.gate.started()["recording"])

    assert asyncio.run(go()) == "full"
    mail.run_json = lambda *given: None
    assert asyncio.run(go()) == "partial"


@pytest.mark.parametrize(
    "deadline",
    [
        datetime(2999, 1, 1),  # noqa: DTZ001
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=1))),
    ],
    ids=["without an offset", "beyond UTC"],
)
def test_a_deadline_that_no_receipt_can_carry_leaves_the_wait_unrouted(
    bench: Bench, deadline: datetime
) -> None:
    waits = swarm(
        agent("alice", call("transfer_to_user"), handoffs=["user"]),
        termination_condition=HandoffTermination("user"),
    )

    async def go() -> None:
        started = await autogen.record(bench.recorder, waits, thread_id="1")
        await started.run_task("go", approval=Approval("desk", deadline))

    asyncio.run(go())
    found = bench.delivered().stop()
    assert (str(found.state), list(found.reasons)) == ("waiting_unrouted", ["no_deadline"])


def test_a_deadline_is_shown_in_one_offset(bench: Bench) -> None:
    later = datetime(2999, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    waits = swarm(
        agent("alice", call("transfer_to_user"), handoffs=["user"]),
        termination_condition=HandoffTermination("user"),
    )

    async def go() -> None:
        started = await autogen.record(bench.recorder, waits, thread_id="1")
        await started.run_task("go", approval=Approval("desk", later))

    asyncio.run(go())
    shown = bench.delivered().bodies("stopped")[0]["approval"]["deadline"]
    assert shown == later.astimezone(UTC).isoformat()


@pytest.mark.parametrize(
    ("seconds", "rule"),
    [
        (math.inf, "not_finite"),
        (math.nan, "not_finite"),
        (-1, "range"),
        (1e300, "range"),
        ("5", "not_a_number"),
    ],
)
def test_a_time_limit_that_no_receipt_can_carry_is_refused_before_anything_runs(
    bench: Bench, seconds: Any, rule: str
) -> None:
    talks = round_robin(agent("alice", "hi"), max_turns=1)

    async def go() -> None:
        started = await autogen.record(bench.recorder, talks, thread_id="1")
        with pytest.raises(ValueError, match=f"^timeout_s: {rule}$"):
            await started.run_task("go", timeout_s=seconds)
        await started.run_task("go", timeout_s=30)

    asyncio.run(go())
    assert len(bench.delivered().bodies("stopped")) == 1


@pytest.mark.parametrize("never", [math.inf, math.nan, -5.0])
def test_a_limit_of_the_team_s_own_that_never_comes_is_none(bench: Bench, never: float) -> None:
    ends = TimeoutTermination(never) | MaxMessageTermination(2)

    async def go() -> None:
        talks = round_robin(agent("alice", "hi"), termination_condition=ends)
        await (await autogen.record(bench.recorder, talks, thread_id="1")).run_task("go")

    asyncio.run(go())
    conditions = bench.delivered().bodies("stopped")[0]["policy"]["conditions"]
    assert conditions == [{"type": "step_count", "n": 2}]
    assert bench.gate.refused == []
    assert list(dumps.conditions(round_robin(agent("alice"), max_turns=3))) == [
        {"type": "step_count", "n": 3}
    ]
