"""Live runs: what is recorded of each, and what the rules say of its hand-overs and edges."""

import asyncio
import json
from typing import Any

import pytest
from agents import Agent, RunHooks, SQLiteSession, handoff
from agents.tracing import trace

from branches.evidence.domains import THREAD
from debugger.recorder import OutsideRun
from debugger.recorder.conformance.gate import KEY
from debugger.recorder.openai_agents import TracingOff
from debugger.recorder.openai_agents.graph import AgentsAmbiguous
from debugger.recorder.openai_agents.runs import RunSpent
from tests.recorder.openai_agents.crew import MARKER, Bench, Scripted, calls, says


def test_it_records_a_hand_over_that_was_taken_and_claims_to_be_done(bench: Bench) -> None:
    bench.run(bench.crew([calls("transfer_to_billing", "h1")], [says()]))
    assert bench.handoffs() == {"billing": ("false_success", ["unverified"])}
    assert bench.edges() == ["triage>billing:handoff ok"]
    assert bench.topology() == ("healthy", [])
    assert [body["event"] for body in bench.bodies("handoff")] == ["delegated", "accepted", "completed"]


def test_two_hand_overs_at_once_are_an_ambiguous_route(bench: Bench) -> None:
    wishes = [calls("transfer_to_billing", "h1"), calls("transfer_to_legal", "h2")]
    bench.run(bench.crew(wishes, [says()]))
    assert bench.edges() == [
        "triage>billing:handoff error",
        "triage>legal:handoff error",
        "triage>billing:handoff ok",
    ]
    assert bench.topology() == ("ambiguous_route", ["triage>billing:handoff"])
    assert bench.handoffs() == {
        "legal": ("orphaned", ["released"]),
        "billing": ("false_success", ["unverified"]),
    }


def test_a_receiver_that_hands_over_itself_waits_for_the_next_one(bench: Bench) -> None:
    model = Scripted([calls("transfer_to_billing", "h1")], [calls("transfer_to_legal", "h2")], [says()])
    legal = Agent(name="legal", model=model)
    billing = Agent(name="billing", model=model, handoffs=[legal])
    bench.run(Agent(name="triage", model=model, handoffs=[handoff(billing)]))
    assert bench.handoffs() == {
        "billing": ("waiting", ["dependency:legal"]),
        "legal": ("false_success", ["unverified"]),
    }


def test_an_agent_that_is_called_as_a_tool_is_an_edge_and_no_hand_over(bench: Bench) -> None:
    legal = Agent(name="legal", model=Scripted([says("the law")]))
    model = Scripted([calls("ask_legal", "c1", input=MARKER)], [says()])
    bench.run(Agent(name="triage", model=model, tools=[legal.as_tool("ask_legal", "Ask.")]))
    assert bench.edges() == ["triage>legal:agent_as_tool ok"]
    assert bench.bodies("handoff") == []
    assert bench.gate.started()["recording"] == "full"


def test_it_records_each_message_once_before_the_state_that_holds_it(bench: Bench) -> None:
    look_up = [calls("look_up", "c1", order="7")]
    bench.run(bench.crew([calls("transfer_to_billing", "h1")], look_up, [says()]))
    messages = bench.bodies("message")
    assert [(each["class"], each["sender"], each["recipient"]) for each in messages] == [
        ("input", None, None),
        ("handoff", "triage", None),
        ("handoff", "triage", "billing"),
        ("tool_call", "billing", None),
        ("tool_result", None, "billing"),
        ("answer", "billing", None),
    ]
    assert len({each["message"] for each in messages}) == 6
    assert messages[4]["replies_to"] == messages[3]["message"]
    assert messages[5]["tokens"] == 3
    kinds = [kind for kind in bench.kinds() if kind in {"message", "checkpoint"}]
    assert kinds == [
        "message", "checkpoint", "message", "message", "checkpoint", "message", "message", "checkpoint",
        "message", "checkpoint",
    ]  # fmt: skip
    known = {body["checkpoint"] for body in bench.bodies("checkpoint")}
    assert {each["checkpoint"] for each in messages} <= known


def test_each_turn_is_a_checkpoint_with_the_fingerprint_of_its_state(bench: Bench) -> None:
    bench.run(bench.crew([calls("transfer_to_billing", "h1")], [says()]))
    found = bench.bodies("checkpoint")
    assert [each["step"] for each in found] == [0, 1, 2]
    assert [each["parent_checkpoint"] for each in found] == [
        None, found[0]["checkpoint"], found[1]["checkpoint"],
    ]  # fmt: skip
    assert all(each["consistent"] for each in found)
    assert len({each["state"]["agent_memory"]["fingerprint"] for each in found}) == 3


def test_an_intent_is_written_before_the_call_and_names_the_state_it_came_from(bench: Bench) -> None:
    refund = [calls("refund", "c1", order="7", note=MARKER)]
    agent = bench.crew(
        [calls("transfer_to_billing", "h1")], refund, [says()], tools=bench.tools(needs_approval=False)
    )
    bench.run(agent)
    (intended,) = bench.bodies("effect_intended")
    (answered,) = bench.bodies("effect_answered")
    assert intended["checkpoint"] == bench.bodies("checkpoint")[1]["checkpoint"]
    assert (intended["key_strength"], intended["destination"]) == ("declared", "desk")
    assert (answered["answer"], answered["destination_version"]) == ("acknowledged", 1)
    assert bench.desk == [("7", intended["operation_key"])]
    kinds = bench.kinds()
    assert kinds.index("effect_intended") < kinds.index("effect_answered")
    assert bench.bodies("recording_closed") == [{"count": len(kinds)}]


def test_equal_calls_in_two_turns_are_two_operations(bench: Bench) -> None:
    refund = [[calls("refund", f"c{number}", order="7")] for number in range(2)]
    tools = bench.tools(needs_approval=False)
    bench.run(bench.crew([calls("transfer_to_billing", "h1")], *refund, [says()], tools=tools))
    assert len(bench.desk) == 2
    assert len({key for _, key in bench.desk}) == 2
    assert bench.bodies("effect_reused") == []


def test_a_run_s_thread_is_its_trace_and_the_trace_is_ours(bench: Bench) -> None:
    first, second = bench.run(bench.crew([says()])), bench.run(bench.crew([says()]))
    assert first.trace != second.trace
    bench.delivered()
    assert bench.gate.started()["external_ref"] == KEY.digest(THREAD, second.trace)
    assert bench.gate.started()["runtime"] == {"name": "openai-agents", "version": "0.24.0"}


def test_a_recording_is_partial_where_a_tool_goes_past_the_recorder(bench: Bench) -> None:
    wrapped = bench.crew([says()])
    bench.run(wrapped)
    bench.delivered()
    assert bench.gate.started()["recording"] == "full"
    from agents import function_tool

    @function_tool
    def refund(order: str) -> str:
        return order

    billing = wrapped.handoffs[0]
    assert isinstance(billing, Agent)
    billing.tools = [refund]
    bench.run(wrapped)
    bench.delivered()
    assert bench.gate.started()["recording"] == "partial"


def test_agents_say_themselves_what_they_are_and_the_declaration_fills_the_gaps(bench: Bench) -> None:
    def instructions(context: object, agent: object) -> str:
        return MARKER

    agent = bench.crew([says()], instructions=instructions)
    bench.run(agent)
    bench.delivered()
    parts = {each["agent"]: each for each in bench.gate.started()["configuration"]["agents"]}
    assert parts["triage"]["prompt"] == KEY.digest("prompt", "Route.")
    assert parts["triage"]["model"] == "fake-1"
    assert parts["billing"]["prompt"] is None
    bench.recorder.declare({"agents": [{"agent": "billing", "prompt": "as I say"}]})
    bench.run(agent)
    bench.delivered()
    parts = {each["agent"]: each for each in bench.gate.started()["configuration"]["agents"]}
    assert parts["billing"]["prompt"] == KEY.digest("prompt", "as I say")


def test_two_agents_of_one_name_are_refused(bench: Bench) -> None:
    model = Scripted()
    twins = [Agent(name="billing", model=model), Agent(name="billing", model=model)]
    with pytest.raises(AgentsAmbiguous):
        bench.record(Agent(name="triage", model=model, handoffs=list(twins)))


def test_a_run_begins_once(bench: Bench) -> None:
    run = bench.run(bench.crew([says()]))
    with pytest.raises(RunSpent, match="begun"):
        asyncio.run(run.start("again"))


def test_the_processor_was_removed_and_no_model_is_called(bench: Bench) -> None:
    from agents import set_trace_processors

    agent = bench.crew([says()])
    run = bench.record(agent)
    set_trace_processors([])
    with pytest.raises(TracingOff, match="processor_removed"):
        asyncio.run(run.start("help"))
    assert agent.model.asked == 0  # type: ignore[union-attr]


def test_a_trace_of_the_program_s_own_would_hide_ours(bench: Bench) -> None:
    run = bench.record(bench.crew([says()]))
    with trace("mine", trace_id="trace_" + "0" * 32), pytest.raises(TracingOff, match="another_trace"):
        asyncio.run(run.start("help"))


def test_a_wrapped_tool_is_not_called_outside_a_recorded_run(bench: Bench) -> None:
    from agents import Runner

    tools = bench.tools(needs_approval=False)
    agent = Agent(name="billing", model=Scripted([calls("refund", "c1", order="7")], [says()]), tools=tools)
    asyncio.run(Runner.run(agent, "help"))
    assert bench.desk == []
    with pytest.raises(OutsideRun):
        bench.recorder.run_here()


def test_the_start_of_a_run_with_a_session_is_no_fork_point(bench: Bench) -> None:
    session = SQLiteSession("s-1", bench.folder / "session.sqlite")
    run = bench.record(bench.crew([calls("transfer_to_billing", "h1")], [says()]))
    asyncio.run(run.start(f"help {MARKER}", session=session))
    assert [each["consistent"] for each in bench.bodies("checkpoint")] == [False, True, True]
    session.close()


def test_a_program_s_context_that_is_no_plain_mapping_is_left_out_of_the_state(bench: Bench) -> None:
    class Secrets:
        token = f"secret {MARKER}"

    run = bench.record(bench.crew([says()]))
    asyncio.run(run.start("help", context=Secrets()))
    (place,) = (bench.folder / "home" / "states").iterdir()
    for file in place.iterdir():
        assert json.loads(file.read_text())["context"] == "left"
        assert "secret" not in file.read_text()
        assert file.stat().st_mode & 0o077 == 0


def test_the_program_s_own_hooks_are_called_too(bench: Bench) -> None:
    heard: list[str] = []

    class Own(RunHooks[Any]):
        async def on_llm_start(self, context: Any, agent: Any, system_prompt: Any, input_items: Any) -> None:
            heard.append(f"asks {agent.name}")

        # The SDK passes the parameters by name: the first must be called `context`.
        async def on_handoff(self, context: Any, from_agent: Any, to_agent: Any) -> None:
            heard.append(f"{from_agent.name} to {to_agent.name}")

        async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
            heard.append(f"used {tool.name}")

        async def on_agent_end(self, context: Any, agent: Any, output: Any) -> None:
            heard.append(f"end of {agent.name}")

    look_up = [calls("look_up", "c1", order="7")]
    bench.run(bench.crew([calls("transfer_to_billing", "h1")], look_up, [says()]), hooks=Own())
    assert heard == [
        "asks triage", "triage to billing", "asks billing", "used look_up", "asks billing", "end of billing",
    ]  # fmt: skip


def test_a_receipt_that_could_not_be_written_ends_the_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = bench.crew([calls("transfer_to_billing", "h1")], [says()])
    run = bench.record(agent)
    emit = run.record.emit

    def full(kind: str, *args: Any, **kwargs: Any) -> Any:
        if kind == "handoff" and args[0]["event"] == "delegated":
            raise OSError("no space")
        return emit(kind, *args, **kwargs)

    monkeypatch.setattr(run.record, "emit", full)
    # The SDK only logs what a processor raises; the next turn must not be taken unrecorded.
    with pytest.raises(OSError, match="no space"):
        asyncio.run(run.start("help"))
    assert agent.model.asked == 1  # type: ignore[union-attr]
