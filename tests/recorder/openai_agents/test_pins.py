"""What a permit pins of agents: code and settings that can be seen, and nothing where they cannot."""

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest
from agents import (
    Agent,
    AgentHooks,
    FunctionTool,
    GuardrailFunctionOutput,
    InputGuardrail,
    RunConfig,
    function_tool,
    handoff,
)

from debugger.recorder import openai_agents
from debugger.recorder.conformance.gate import claims_of
from tests.recorder.openai_agents.crew import DECLARED, Bench, Scripted, calls, says
from tests.recorder.openai_agents.test_branching import HANDOVER, REFUND, fork, resume

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order": {"type": "string"}},
    "required": ["order"],
    "additionalProperties": False,
}


def plain_crew(*script: Any, **billing: Any) -> Agent[Any]:
    """Return triage and billing, of which all can be seen but the model."""
    model = Scripted(*script)
    taker = Agent(**{"name": "billing", "instructions": "Refund.", "model": model, **billing})
    legal = Agent(name="legal", instructions="Answer.", model=model)
    return Agent(name="triage", instructions="Route.", model=model, handoffs=[taker, legal])


def declare_models(bench: Bench, **billing: Any) -> None:
    said = [{"agent": name, "model": "fake-1"} for name in ("triage", "legal")]
    bench.recorder.declare({"agents": [*said, {"agent": "billing", "model": "fake-1", **billing}]})


def went(bench: Bench, before: Agent[Any], after: Agent[Any]) -> str:
    """Record a run to its fork, resume it with other agents, and return the word."""
    bench.run(before)
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    word = resume(bench, envelope, agent=after)
    if word.startswith("declined_"):
        assert bench.gate.declined[-1] == (claims_of(envelope)["permit"], word.removeprefix("declined_"))
        assert bench.gate.redeem_calls == 0
    return word


def part(bench: Bench, agent: str, name: str) -> Any:
    bench.delivered()
    agents = bench.gate.started()["configuration"]["agents"]
    return next(each[name] for each in agents if each["agent"] == agent)


def refunds(bench: Bench, where: str) -> Callable[..., Any]:
    """Return a function that closes over a plain value and over nothing else."""

    def refund(order: str) -> str:
        return f"{where} {order}"

    return refund


def limited(order: str, limit: int = 1) -> str:
    return order * limit


class Desk:
    """Something that a tool works on."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def refund(self, order: str) -> str:
        """Refund."""
        self.sent.append(order)
        return order

    def __call__(self, *given: Any) -> Any:
        return None


def test_the_same_code_with_the_same_plain_values_is_the_same(bench: Bench) -> None:
    declare_models(bench)
    crews = [
        plain_crew([says()], tools=[openai_agents.wrap(bench.recorder, refunds(bench, "staging"))])
        for _ in range(2)
    ]
    assert went(bench, *crews) == "natural_finish"
    assert part(bench, "billing", "tools") is not None


def test_a_tool_that_closes_over_another_plain_value_is_refused(bench: Bench) -> None:
    declare_models(bench)
    crews = [
        plain_crew([says()], tools=[openai_agents.wrap(bench.recorder, refunds(bench, where))])
        for where in ("staging", "production")
    ]
    assert went(bench, *crews) == "declined_topology_differs"


def with_body(bench: Bench, word: str, *, is_wrapped: bool = True) -> Agent[Any]:
    namespace: dict[str, Any] = {}
    # Two bodies of one name and one form, of which no file has the source.
    exec(f"def look_up(order: str) -> str:\n    return {word!r}", namespace)
    tool = function_tool(namespace["look_up"])
    return plain_crew([says()], tools=[openai_agents.wrap(bench.recorder, tool) if is_wrapped else tool])


@pytest.mark.parametrize("is_wrapped", [True, False], ids=["wrapped", "declared to read"])
def test_another_body_behind_a_ready_tool_is_refused(bench: Bench, is_wrapped: bool) -> None:
    declare_models(bench)
    crews = [with_body(bench, word, is_wrapped=is_wrapped) for word in ("one", "two")]
    assert went(bench, *crews) == "declined_topology_differs"


def invoking(word: str) -> FunctionTool:
    async def invoke(context: Any, arguments: str) -> str:
        return word

    return FunctionTool(name="look_up", description="", params_json_schema=SCHEMA, on_invoke_tool=invoke)


def test_a_tool_made_by_hand_is_seen_by_what_it_invokes(bench: Bench) -> None:
    declare_models(bench)
    crews = [
        plain_crew([says()], tools=[openai_agents.wrap(bench.recorder, invoking(word))])
        for word in ("one", "one", "two")
    ]
    assert went(bench, crews[0], crews[2]) == "declined_topology_differs"
    assert went(bench, crews[0], crews[1]) == "natural_finish"


def test_a_decorator_s_own_code_counts_too(bench: Bench) -> None:
    def doubled(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def twice(order: str) -> str:
            return function(order) * 2

        return twice

    declare_models(bench)
    crews = [
        plain_crew([says()], tools=[openai_agents.wrap(bench.recorder, each)])
        for each in (refunds(bench, "x"), doubled(refunds(bench, "x")))
    ]
    assert went(bench, *crews) == "declined_topology_differs"


def over_object(bench: Bench) -> dict[str, Any]:
    desk = Desk()

    def refund(order: str) -> str:
        return desk.refund(order)

    return {"tools": [openai_agents.wrap(bench.recorder, refund)]}


def over_list(bench: Bench) -> dict[str, Any]:
    sent: list[str] = []

    def refund(order: str) -> str:
        sent.append(order)
        return order

    return {"tools": [openai_agents.wrap(bench.recorder, refund)]}


def deep_object(bench: Bench) -> dict[str, Any]:
    inner = over_object(bench)["tools"][0].__wrapped__

    def refund(order: str) -> str:
        return str(inner(order))

    return {"tools": [openai_agents.wrap(bench.recorder, refund)]}


def method(bench: Bench) -> dict[str, Any]:
    return {"tools": [openai_agents.wrap(bench.recorder, function_tool(Desk().refund))]}


def object_in_approval(bench: Bench) -> dict[str, Any]:
    return {"tools": [openai_agents.wrap(bench.recorder, limited, needs_approval=Desk())]}


def callback_over_object(bench: Bench) -> dict[str, Any]:
    clerk = Agent(name="helper", model="fake-1")
    return {"handoffs": [handoff(clerk, on_handoff=functools.partial(_kept, Desk()))]}


def filter_of_partial(bench: Bench) -> dict[str, Any]:
    clerk = Agent(name="helper", model="fake-1")
    return {"handoffs": [handoff(clerk, input_filter=functools.partial(_kept, Desk()))]}


def _kept(desk: Any, given: Any) -> Any:
    return getattr(given, "model_data", given)


def hooks(bench: Bench) -> dict[str, Any]:
    return {"hooks": AgentHooks()}


def agent_with_hooks(bench: Bench) -> dict[str, Any]:
    clerk = Agent(name="helper", model="fake-1")
    return {"tools": [clerk.as_tool("ask", "Ask.", session=Desk())]}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "hiding",
    [
        over_object, over_list, deep_object, method, object_in_approval, callback_over_object,
        filter_of_partial, hooks, agent_with_hooks,
    ],
)  # fmt: skip
def test_tools_that_hide_something_are_unknown_unless_they_are_declared(
    bench: Bench, hiding: Callable[[Bench], dict[str, Any]]
) -> None:
    declare_models(bench)

    def crew() -> Agent[Any]:
        return plain_crew([says()], **hiding(bench))

    assert went(bench, crew(), crew()) == "declined_configuration_unknown"
    assert part(bench, "billing", "tools") is None
    declare_models(bench, tools=["refund desk=production v3"])
    bench.run(crew())
    assert part(bench, "billing", "tools") is not None
    declare_models(bench, tools=["refund desk=elsewhere v3"])
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, agent=crew()) == "declined_configuration_differs"


def test_a_guardrail_that_hides_something_is_an_unknown_role(bench: Bench) -> None:
    desk = Desk()

    def guard(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(output_info=str(desk.sent), tripwire_triggered=False)

    def crew() -> Agent[Any]:
        return plain_crew([says()], input_guardrails=[InputGuardrail(guardrail_function=guard)])

    declare_models(bench)
    assert went(bench, crew(), crew()) == "declined_configuration_unknown"
    declare_models(bench, role="billing, guarded by the desk's list")
    assert went(bench, crew(), crew()) == "natural_finish"


def test_a_model_that_is_an_object_is_unknown_unless_it_is_declared(bench: Bench) -> None:
    bench.recorder.declare({})
    assert went(bench, plain_crew([says()]), plain_crew([says()])) == "declined_configuration_unknown"
    assert part(bench, "triage", "model") is None
    bench.recorder.declare({"agents": [{"agent": "triage", "model": "other-1"}]})
    bench.run(plain_crew([says()]))
    assert part(bench, "triage", "model") is None  # it says itself that it is another one
    declare_models(bench)
    assert went(bench, plain_crew([says()]), plain_crew([says()])) == "natural_finish"


class Elsewhere(Scripted):
    """A model of the same name that asks somebody else."""


def test_a_model_of_another_class_is_refused(bench: Bench) -> None:
    declare_models(bench)
    other = plain_crew([says()])
    other.model = Elsewhere([says()])
    assert went(bench, plain_crew([says()]), other) == "declined_topology_differs"


def test_a_client_that_asks_elsewhere_is_another_model(bench: Bench) -> None:
    from agents import OpenAIResponsesModel
    from openai import AsyncOpenAI

    def configured(url: str) -> Any:
        client = AsyncOpenAI(api_key="k", base_url=url)
        bench.record(plain_crew(model=OpenAIResponsesModel("fake-1", client)))
        bench.delivered()
        return bench.gate.started()["configuration"]

    bench.recorder.declare({})
    first, same, other = (configured(f"https://{name}.example") for name in ("a", "a", "b"))
    assert part(bench, "billing", "model") == "fake-1"
    assert first == same
    assert first["routing"] != other["routing"]


def test_a_run_s_filter_that_hides_something_leaves_the_routing_unknown(bench: Bench) -> None:
    def config() -> RunConfig:
        return RunConfig(call_model_input_filter=functools.partial(_kept, Desk()))

    crew = bench.crew([says()])
    asyncio.run(bench.record(crew, run_config=config()).start("help"))
    bench.delivered()
    assert bench.gate.started()["configuration"]["routing"] is None
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, run_config=config()) == "declined_topology_unknown"
    bench.recorder.declare({**DECLARED, "routing": "the desk's own filter, v2"})
    asyncio.run(bench.record(bench.crew([says()]), run_config=config()).start("help"))
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, run_config=config()) == "natural_finish"


def test_an_agent_used_as_a_tool_is_pinned_with_the_run_it_is_given(bench: Bench) -> None:
    def crew(turns: int, model: str) -> Agent[Any]:
        clerk = Agent(name="helper", model="fake-1")
        tool = clerk.as_tool("ask", "Ask.", max_turns=turns, run_config=RunConfig(model=model))
        return plain_crew([says()], tools=[tool])

    declare_models(bench)
    assert went(bench, crew(3, "fake-1"), crew(3, "fake-1")) == "natural_finish"
    bench.gate.redeem_calls = 0
    assert went(bench, crew(3, "fake-1"), crew(4, "fake-1")) == "declined_topology_differs"
    assert went(bench, crew(3, "fake-1"), crew(3, "fake-2")) == "declined_topology_differs"


def test_code_behind_a_hand_over_is_pinned_and_makes_the_recording_partial(bench: Bench) -> None:
    def crew(callback: Any) -> Agent[Any]:
        found = plain_crew(HANDOVER, [says()])
        found.handoffs = [handoff(found.handoffs[0], on_handoff=callback), found.handoffs[1]]  # type: ignore[arg-type]
        crews.append(found)
        return found

    def noted(context: Any) -> None:
        """Nothing."""

    def other(context: Any) -> None:
        bench.desk.append(("other", ""))

    crews: list[Any] = []
    declare_models(bench)
    bench.run(crew(noted))
    bench.delivered()
    assert bench.gate.started()["recording"] == "partial"
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, agent=crew(noted)) == "declined_tool_unwrapped"
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, agent=crew(other)) == "declined_topology_differs"
    assert bench.desk == []


def test_a_hand_over_whose_making_was_replaced_is_unknown(bench: Bench) -> None:
    declare_models(bench)
    crew = plain_crew([says()])
    billing = crew.handoffs[0]
    replaced: Any = handoff(billing)  # type: ignore[arg-type]

    async def invoke(context: Any, given: str) -> Any:
        return billing

    replaced.on_invoke_handoff = invoke
    crew.handoffs = [replaced, crew.handoffs[1]]
    run = bench.record(crew)
    assert run.run
    bench.delivered()
    assert bench.gate.started()["recording"] == "partial"


def test_a_wrapped_tool_whose_call_was_replaced_is_not_recorded(bench: Bench) -> None:
    tool = openai_agents.wrap(bench.recorder, limited)

    async def invoke(context: Any, arguments: str) -> str:
        return "past the recorder"

    tool.on_invoke_tool = invoke
    bench.record(plain_crew(tools=[tool]))
    bench.delivered()
    assert bench.gate.started()["recording"] == "partial"


def test_a_recording_that_stops_being_full_is_not_closed(bench: Bench) -> None:
    reached: list[int] = []

    @function_tool
    def past() -> str:
        reached.append(1)
        return "done"

    def look_up(order: str) -> str:
        agent.tools.append(past)
        return order

    agent = Agent(
        name="billing",
        model=Scripted([calls("look_up", "c1", order="7")], [calls("past", "c2")], [says()]),
        tools=[openai_agents.wrap(bench.recorder, look_up)],
    )
    bench.run(agent)
    assert reached == [1]
    assert bench.bodies("stopped")[0]["stop_cause"] == "natural_finish"
    assert bench.gate.started()["recording"] == "full"
    assert bench.bodies("recording_closed") == []
    assert "recording_fell" in bench.recorder.problems


def test_a_branch_that_stops_being_full_is_not_closed(bench: Bench) -> None:
    bench.run(bench.crew(HANDOVER, REFUND))
    envelope = bench.gate.permit(checkpoint=fork(bench))
    crew = bench.crew([says()])

    @function_tool
    def past() -> str:
        return "done"

    def yes(item: Any) -> bool:
        crew.tools.append(past)
        return True

    assert resume(bench, envelope, agent=crew, decide=yes) == "natural_finish"
    branch = str(claims_of(envelope)["branch"])
    assert "stopped" in bench.kinds(branch)
    assert bench.bodies("recording_closed", branch) == []
