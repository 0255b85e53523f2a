"""Teams that would never come back: cancelled in a tool, out of time, or waiting for a model for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from autogen_core import CancellationToken

from debugger.recorder import autogen
from tests.recorder.autogen.teams import Bench, Desk, FakeModel, agent, call, round_robin

# The library never comes to rest here; what is cancelled after that has as long to say so.
SETTLE_S = 0.5


class Hanging(FakeModel):
    """A model that never answers, and does not hear that it is cancelled."""

    async def create(self, messages: Any, **_: Any) -> Any:
        if self.answers:
            return await super().create(messages)
        return await asyncio.Event().wait()


def slow_team(bench: Bench, started: asyncio.Event) -> Any:
    async def send_mail(recipient: str) -> str:
        """Send a mail."""
        started.set()
        await asyncio.Event().wait()
        return recipient

    mail = autogen.wrap(bench.recorder, send_mail)
    return round_robin(agent("alice", call("send_mail", recipient="r"), tools=[mail]), max_turns=2)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 120))  # type: ignore[arg-type]


def test_the_library_itself_stays_pending_when_it_is_cancelled_in_a_tool(bench: Bench) -> None:
    """If this fails, the library was mended, and the recorder can wait for it."""

    async def test() -> None:
        started, token = asyncio.Event(), CancellationToken()

        async def wait_long(word: str) -> str:
            """Wait."""
            started.set()
            await asyncio.Event().wait()
            return word

        team = round_robin(agent("alice", call("wait_long", word="x"), tools=[wait_long]), max_turns=1)
        task = asyncio.create_task(team.run(task="go", cancellation_token=token))
        await started.wait()
        token.cancel()
        _, pending = await asyncio.wait({task}, timeout=0.3)
        assert pending == {task}
        task.cancel()
        await asyncio.wait({task}, timeout=60)

    run(test)


def test_a_cancel_in_a_tool_ends_the_run_and_leaves_the_effect_pending(bench: Bench) -> None:
    async def test() -> None:
        started, token = asyncio.Event(), CancellationToken()
        team = slow_team(bench, started)
        recorded = await autogen.record(bench.recorder, team, thread_id="1", settle_s=SETTLE_S)
        task = asyncio.create_task(recorded.run_task("go", cancellation_token=token))
        await started.wait()
        token.cancel()
        assert await task is None
        assert recorded.stop_cause == "user_abort"
        with pytest.raises(autogen.TeamSpent):
            await recorded.run_task("again")

    run(test)
    bench.delivered()
    assert str(bench.stop().state) == "bounded_stop"
    assert [each["answer"] for each in bench.bodies("effect_answered")] == ["no_answer"]
    assert bench.bodies("checkpoint")[-1]["consistent"] is False
    assert bench.bodies("recording_closed")[0]["count"] == len(bench.gate.receipts)


@pytest.mark.parametrize(("calls", "seconds", "state"), [(False, 0.5, "stuck"), (True, 5, "bounded_stop")])
def test_our_own_time_limit_ends_a_team_that_does_not(
    bench: Bench, calls: bool, seconds: float, state: str
) -> None:
    async def test() -> None:
        look = autogen.wrap(bench.recorder, Desk().look_up)
        model = Hanging(*([call("look_up", word="x")] if calls else []))
        team = round_robin(agent("alice", model=model, tools=[look]), max_turns=3)
        recorded = await autogen.record(bench.recorder, team, thread_id="1", settle_s=SETTLE_S)
        found = [message async for message in recorded.stream("go", timeout_s=seconds)]
        assert not hasattr(found[-1], "stop_reason")
        assert recorded.stop_cause == "timeout"

    run(test)
    found = bench.delivered().stop()
    assert (str(found.state), list(found.reasons)) == (state, ["timeout"])
    conditions = bench.bodies("stopped")[0]["policy"]["conditions"]
    assert conditions == [{"type": "step_count", "n": 3}, {"type": "deadline", "ms": seconds * 1000}]


def test_a_caller_that_is_cancelled_leaves_a_whole_record(bench: Bench) -> None:
    async def test() -> None:
        started = asyncio.Event()
        recorded = await autogen.record(
            bench.recorder, slow_team(bench, started), thread_id="1", settle_s=SETTLE_S
        )
        task = asyncio.create_task(recorded.run_task("go"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
    bench.delivered()
    assert [each["stop_cause"] for each in bench.bodies("stopped")] == ["user_abort"]
    assert len(bench.bodies("recording_closed")) == 1
