"""Why a loop stopped, taken at the boundary: every end of a real run, judged by the rules."""

import asyncio
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrail,
    MaxTurnsExceeded,
    ModelSettings,
    function_tool,
)
from agents.exceptions import AgentsException, InputGuardrailTripwireTriggered, ModelBehaviorError

from debugger.recorder import DestinationRefused, Hold, openai_agents
from debugger.recorder.openai_agents import Approval
from debugger.recorder.openai_agents.runs import RunSpent
from tests.recorder.openai_agents.crew import MARKER, Bench, Scripted, calls, says

LATER = datetime(2031, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
BEYOND = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
ROUTED = {"refund": Approval("refund-desk", LATER)}
REFUND = [calls("refund", "c1", order="7")]


def single(bench: Bench, *script: Any, **changed: Any) -> Agent[Any]:
    """Return billing alone."""
    return Agent(name="billing", **{"model": Scripted(*script), "tools": bench.tools(), **changed})


def test_a_finish_is_a_claim(bench: Bench) -> None:
    run = bench.run(single(bench, [calls("look_up", "c1", order="7")], [says()]))
    assert run.stop_cause == "natural_finish"
    assert bench.stop() == ("false_complete", ["no_receipt"])
    (stopped,) = bench.bodies("stopped")
    assert stopped["steps"] == [{"tools": ["look_up"], "tokens": 8}, {"tools": [], "tokens": 8}]
    assert (stopped["loop"], stopped["useful_progress"]) == ("claimed", True)


def test_the_sdk_s_default_limit_is_a_condition_like_any_other(bench: Bench) -> None:
    bench.run(single(bench, [says()]))
    assert bench.bodies("stopped")[0]["policy"] == {
        "version": "1.0.0",
        "conditions": [{"type": "step_count", "n": 10}, {"type": "loop_finished"}],
    }


def test_a_call_that_waits_is_routed_when_owner_deadline_and_token_are_known(bench: Bench) -> None:
    agent = bench.crew([calls("transfer_to_billing", "h1")], REFUND)
    bench.run(agent, approvals=ROUTED)
    assert bench.stop() == ("waiting", [])
    (stopped,) = bench.bodies("stopped")
    token = stopped["approval"].pop("resume_token")
    assert token.startswith("hmac-sha256:")
    assert stopped["approval"] == {"owner": "refund-desk", "deadline": "2031-01-01T10:00:00+00:00"}
    assert bench.handoffs() == {"billing": ("waiting", ["dependency:approval"])}
    assert bench.desk == []
    assert bench.bodies("effect_intended") == []


@pytest.mark.parametrize(
    ("approvals", "missing"),
    [
        (None, ["no_deadline", "no_owner"]),
        ({"refund": Approval("refund-desk")}, ["no_deadline"]),
        ({"refund": Approval("refund-desk", datetime(2031, 1, 1))}, ["no_deadline"]),  # noqa: DTZ001
        ({"refund": Approval("refund-desk", BEYOND)}, ["no_deadline"]),
        (lambda item: {}["nobody"], ["no_deadline", "no_owner"]),
        (lambda item: Approval(None, LATER) if item.tool_name == "refund" else None, ["no_owner"]),
    ],
)
def test_a_call_that_waits_for_nobody_in_particular_is_unrouted(
    bench: Bench, approvals: Any, missing: list[str]
) -> None:
    bench.run(single(bench, REFUND), approvals=approvals)
    assert bench.stop() == ("waiting_unrouted", missing)


def test_an_answer_counts_once(bench: Bench) -> None:
    run = bench.run(single(bench, REFUND, [calls("refund", "c2", order="8")], [says()]))
    with pytest.raises(ValueError, match="nothing_decided"):
        asyncio.run(run.resume(lambda item: None))
    asyncio.run(run.resume(lambda item: True))
    # The second call is another one: the first answer does not count for it.
    assert [order for order, _ in bench.desk] == ["7"]
    assert run.stop_cause == "approval_requested"
    asyncio.run(run.resume(lambda item: False))
    assert [order for order, _ in bench.desk] == ["7"]
    assert bench.stop() == ("false_complete", ["no_receipt"])
    with pytest.raises(RunSpent, match="not_waiting"):
        asyncio.run(run.resume(lambda item: True))
    assert bench.bodies("recording_closed")[-1]["count"] == len(bench.kinds())


def test_an_approved_state_that_is_run_past_the_recorder_calls_nothing(bench: Bench) -> None:
    from agents import Runner

    agent = single(bench, REFUND, [says()])
    run = bench.record(agent)
    result = asyncio.run(run.start("help"))
    state = result.to_state()
    state.approve(state.get_interruptions()[0])
    asyncio.run(Runner.run(agent, state))
    assert bench.desk == []


def test_a_limit_of_turns_is_a_bounded_stop(bench: Bench) -> None:
    looks = [[calls("look_up", f"c{number}", order="7")] for number in range(3)]
    with pytest.raises(MaxTurnsExceeded):
        bench.run(single(bench, *looks), max_turns=2)
    assert bench.stop() == ("bounded_stop", ["step_limit"])
    assert len(bench.bodies("stopped")[0]["steps"]) == 2


def test_an_output_that_looks_usual_does_not_hide_the_limit(bench: Bench) -> None:
    looks = [[calls("look_up", f"c{number}", order="7")] for number in range(3)]
    run = bench.record(single(bench, *looks))
    handlers = {"max_turns": lambda given: f"all is well {MARKER}"}
    result = asyncio.run(run.start("help", max_turns=2, error_handlers=handlers))
    assert result.final_output == f"all is well {MARKER}"
    assert bench.stop() == ("bounded_stop", ["step_limit"])
    assert bench.bodies("stopped")[0]["loop"] == "ended"


def test_a_run_without_a_limit_says_so(bench: Bench) -> None:
    bench.run(single(bench, [says()]), max_turns=None)
    assert bench.bodies("stopped")[0]["policy"]["conditions"] == [{"type": "loop_finished"}]


@pytest.mark.parametrize(
    ("limits", "rule"),
    [
        ({"timeout_s": math.inf}, "timeout_s: not_finite"),
        ({"timeout_s": math.nan}, "timeout_s: not_finite"),
        ({"timeout_s": -1}, "timeout_s: range"),
        ({"timeout_s": 1e300}, "timeout_s: range"),
        ({"max_turns": 0}, "max_turns: range"),
        ({"max_turns": 2**60}, "max_turns: range"),
        ({"max_turns": 2.5}, "max_turns: not_a_whole_number"),
    ],
)
def test_a_limit_that_no_receipt_can_carry_is_refused_before_anything_runs(
    bench: Bench, limits: dict[str, Any], rule: str
) -> None:
    run = bench.record(single(bench, REFUND, [says()]))
    with pytest.raises(ValueError, match=f"^{rule}$"):
        asyncio.run(run.start("help", **limits))
    asyncio.run(run.start("help"))
    with pytest.raises(ValueError, match="timeout_s: not_finite"):
        asyncio.run(run.resume(lambda item: True, timeout_s=math.inf))
    asyncio.run(run.resume(lambda item: True))
    assert [each["stop_cause"] for each in bench.bodies("stopped")] == [
        "approval_requested",
        "natural_finish",
    ]


def failing(bench: Bench, error: Exception, **options: Any) -> list[Any]:
    def refund(order: str) -> str:
        raise error

    return [openai_agents.wrap(bench.recorder, refund, **options)]


def test_a_tool_s_error_that_the_model_talks_away_is_a_failure(bench: Bench) -> None:
    bench.run(single(bench, REFUND, [says("all is well")], tools=failing(bench, RuntimeError(MARKER))))
    assert bench.stop() == ("failed", ["tool_failed"])
    assert bench.bodies("effect_answered")[0]["answer"] == "failed"
    assert bench.bodies("stopped")[0]["stop_cause"] == "natural_finish"


def test_a_tool_that_failed_and_then_worked_did_not_fail(bench: Bench) -> None:
    tries = []

    def look_up(order: str) -> str:
        tries.append(order)
        if len(tries) == 1:
            raise RuntimeError(MARKER)
        return "found"

    looks = [[calls("look_up", f"c{number}", order="7")] for number in range(2)]
    bench.run(single(bench, *looks, [says()], tools=[openai_agents.wrap(bench.recorder, look_up)]))
    assert bench.stop() == ("false_complete", ["no_receipt"])


def test_a_tool_s_error_that_ends_the_run_is_its_cause(bench: Bench) -> None:
    tools = failing(bench, RuntimeError(MARKER), failure_error_function=None)
    with pytest.raises(AgentsException):
        bench.run(single(bench, REFUND, tools=tools))
    assert bench.stop() == ("failed", ["tool_error", "tool_failed"])


def test_a_destination_s_own_no_is_a_refusal(bench: Bench) -> None:
    bench.run(single(bench, REFUND, [says()], tools=failing(bench, DestinationRefused(MARKER))))
    assert bench.bodies("effect_answered")[0]["answer"] == "refused"


@pytest.mark.parametrize("behavior", ["error_as_result", "raise_exception"])
def test_a_tool_that_took_too_long_is_pending_and_failed(bench: Bench, behavior: str) -> None:
    async def refund(order: str) -> str:
        await asyncio.Event().wait()
        return order

    tool = openai_agents.wrap(bench.recorder, refund, timeout=0.5, timeout_behavior=behavior)
    agent = single(bench, REFUND, [says()], tools=[tool])
    if behavior == "error_as_result":
        bench.run(agent)
        assert bench.stop() == ("failed", ["tool_failed"])
    else:
        with pytest.raises(AgentsException):
            bench.run(agent)
        assert bench.stop() == ("failed", ["tool_error", "tool_failed"])
    assert bench.bodies("effect_answered")[0]["answer"] == "no_answer"


def test_a_tool_of_the_sdk_s_own_making_fails_in_its_span_only(bench: Bench) -> None:
    @function_tool
    def refund(order: str) -> str:
        """Refund."""
        raise RuntimeError(MARKER)

    bench.run(single(bench, REFUND, [says()], tools=[openai_agents.wrap(bench.recorder, refund)]))
    assert bench.bodies("effect_answered")[0]["answer"] == "failed"
    assert bench.stop() == ("failed", ["tool_failed"])


def test_a_tool_that_is_not_wrapped_still_counts_for_the_stop(bench: Bench) -> None:
    @function_tool
    def look_up(order: str) -> str:
        """Look up."""
        raise RuntimeError(MARKER)

    bench.run(single(bench, [calls("look_up", "c1", order="7")], [says()], tools=[look_up]))
    assert bench.stop() == ("failed", ["tool_failed"])
    assert bench.bodies("effect_intended") == []


def test_a_tool_that_nobody_has_is_an_error_of_tools(bench: Bench) -> None:
    with pytest.raises(ModelBehaviorError):
        bench.run(single(bench, [calls("nope", "c1")]))
    assert bench.stop() == ("failed", ["tool_error"])


def test_a_provider_that_throws_is_its_cause(bench: Bench) -> None:
    with pytest.raises(RuntimeError):
        bench.run(single(bench, RuntimeError(MARKER)))
    assert bench.stop() == ("failed", ["provider_error"])


def test_a_guardrail_is_a_refusal_of_the_provider_s(bench: Bench) -> None:
    def trip(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=MARKER, tripwire_triggered=True)

    guards = [InputGuardrail(guardrail_function=trip)]
    with pytest.raises(InputGuardrailTripwireTriggered):
        bench.run(single(bench, [says()], input_guardrails=guards))
    assert bench.stop() == ("failed", ["provider_error"])


def test_an_answer_that_the_provider_cut_is_no_finish(bench: Bench) -> None:
    bench.run(single(bench, [says("and then", "incomplete")]))
    assert bench.stop() == ("bounded_stop", ["output_limit"])


def test_a_tool_whose_result_is_the_output_is_the_done_tool(bench: Bench) -> None:
    look = [calls("look_up", "c1", order="7")]
    rule: Any = {"stop_at_tool_names": ["look_up"]}
    bench.run(single(bench, look, tool_use_behavior=rule))
    (stopped,) = bench.bodies("stopped")
    assert (stopped["stop_cause"], stopped["done_tool"]) == ("done_tool", "look_up")
    assert {"type": "tool_call", "tool": "look_up"} in stopped["policy"]["conditions"]
    assert bench.stop() == ("false_complete", ["no_receipt"])


def test_a_run_that_takes_too_long_is_stuck_where_nothing_moved(bench: Bench) -> None:
    async def refund(order: str) -> str:
        await asyncio.Event().wait()
        return order

    run = bench.record(single(bench, REFUND, tools=[openai_agents.wrap(bench.recorder, refund)]))
    assert asyncio.run(run.start("help", timeout_s=5)) is None
    assert run.stop_cause == "timeout"
    assert bench.stop() == ("stuck", ["timeout"])
    assert bench.bodies("effect_answered")[0]["answer"] == "no_answer"
    assert {"type": "deadline", "ms": 5000} in bench.bodies("stopped")[0]["policy"]["conditions"]


def test_a_run_that_is_cancelled_was_stopped_by_its_user(bench: Bench) -> None:
    reached = asyncio.Event()

    async def refund(order: str) -> str:
        reached.set()
        await asyncio.Event().wait()
        return order

    run = bench.record(single(bench, REFUND, tools=[openai_agents.wrap(bench.recorder, refund)]))

    async def cancelled() -> None:
        task = asyncio.create_task(run.start("help"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert bench.stop() == ("bounded_stop", ["user_abort"])


def test_a_call_with_another_payload_is_held_and_ends_the_run(bench: Bench) -> None:
    tools = bench.tools(needs_approval=False)
    script = [[calls("refund", "c1", order="7", note="one")]]
    run = bench.record(single(bench, *script, tools=tools))
    run.record.gate = Holding()  # type: ignore[assignment]
    with pytest.raises(Hold):
        asyncio.run(run.start("help"))
    assert bench.desk == []
    assert bench.stop()[0] == "waiting_unrouted"
    assert bench.kinds()[-3:] == ["effect_held", "stopped", "recording_closed"]


class Holding:
    """Holds every call."""

    def rule(self, call: Any, operation_key: str) -> Any:
        from debugger.recorder.gates import Do, Ruling

        return Ruling(Do.HOLD, operation_key)


def test_parallel_calls_of_which_one_waits_are_told_apart(bench: Bench) -> None:
    both = [calls("look_up", "c1", order="7"), calls("refund", "c2", order="7")]
    settings = ModelSettings(parallel_tool_calls=True)
    run = bench.run(single(bench, both, [says()], model_settings=settings))
    # A call that waits leaves a clean span with no output: it is no effect.
    assert [each["tool"] for each in bench.bodies("effect_intended")] == ["look_up"]
    asyncio.run(run.resume(lambda item: True))
    assert [each["tool"] for each in bench.bodies("effect_intended")] == ["look_up", "refund"]
    assert [order for order, _ in bench.desk] == ["7"]


def test_a_deadline_is_shown_in_one_offset(bench: Bench) -> None:
    bench.run(single(bench, REFUND), approvals=ROUTED)
    assert bench.bodies("stopped")[0]["approval"]["deadline"] == LATER.astimezone(UTC).isoformat()
