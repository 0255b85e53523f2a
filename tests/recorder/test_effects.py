"""Effects: the intent first, stable keys, and what a permit says of a call."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.types import RetryPolicy

from debugger.recorder import DestinationRefused, Hold, OutsideRun, Recorder, branching, frames
from debugger.recorder.conformance.gate import Gate, claims_of
from tests.recorder.team import World, ask, build


def parent_run(recorder: Recorder, gate: Gate, graph: Any) -> tuple[str, dict[str, dict[str, Any]]]:
    """Run the team once; returns the run and its operations by tool."""
    run = recorder.start_run(graph, thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    return run.run, {each["tool"]: each for each in gate.of(run.run, "effect_intended")}


def decided(operations: dict[str, dict[str, Any]], **words: str) -> dict[str, dict[str, Any]]:
    return {
        operations[name]["operation_key"]: {"do": word, "payload": operations[name]["payload"]}
        for name, word in words.items()
    }


def resumed(recorder: Recorder, gate: Gate, graph: Any, run: str, **bound: Any) -> tuple[str, str]:
    """Fork at the writer's checkpoint and resume; returns the branch and the word it ended with."""
    envelope = gate.permit(checkpoint=gate.of(run, "checkpoint")[2], **bound)
    word = branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    assert gate.refused == []
    return claims_of(envelope)["branch"], word


def forget(recorder: Recorder, operation: dict[str, Any]) -> None:
    """Lose a recorded answer, as a power cut may."""
    del recorder.answers._values[operation["operation_key"], operation["payload"]]


def one_node(recorder: Recorder, world: World, work: Any, **options: Any) -> Any:
    graph: Any = StateGraph(dict)
    graph.add_node("writer", work, **options)
    graph.add_edge(START, "writer")
    graph.add_edge("writer", END)
    return graph.compile(checkpointer=world.saver())


def test_it_has_the_intent_on_the_disk_before_the_tool_is_called(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    gate.errors["receipts"] = 503
    seen: list[str] = []

    def create_ticket(subject: str) -> str:
        for path in (world.home / "spool").glob("*.seg"):
            seen.extend(json.loads(frame.payload.split(b"\n")[0])["kind"] for frame in frames.read(path))
        return "done"

    wrapped = recorder.wrap(create_ticket)
    graph = one_node(recorder, world, lambda state: {"answer": wrapped("case")})
    recorder.start_run(graph, thread_id="t").invoke({"question": "?"})
    assert seen[-1] == "effect_intended"


def test_it_does_not_call_the_tool_when_the_intent_cannot_be_written(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorder.start_run(graph, thread_id="t-1")
    append = recorder.spool.append

    def full(line: bytes, **options: Any) -> None:
        if b"effect_intended" in line:
            raise OSError("disk full")
        append(line, **options)

    monkeypatch.setattr(recorder.spool, "append", full)
    with pytest.raises(OSError, match="disk full"):
        run.invoke(ask())
    assert world.delivered() == []


def test_it_names_the_same_operation_in_the_branch(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    assert {each["key_strength"] for each in operations.values()} == {"declared"}
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail="reuse")
    )
    assert word == "natural_finish"
    reused = [each["operation_key"] for each in gate.of(branch, "effect_reused")]
    assert reused == [operations["create_ticket"]["operation_key"], operations["send_mail"]["operation_key"]]
    assert len(world.delivered()) == 2


def test_it_sends_what_the_permit_does_not_name(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    branch, _ = resumed(recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse"))
    assert [each["tool"] for each in gate.of(branch, "effect_intended")] == ["send_mail"]
    assert len(world.delivered("send_mail")) == 2


@pytest.mark.parametrize("decision", ["reuse", "skip"])
def test_it_holds_another_payload_under_a_known_key(gate: Gate, world: World, decision: str) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    world.tone = "sternly"
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail=decision)
    )
    assert word == "approval_requested"
    assert len(gate.of(branch, "effect_held")) == 1
    assert len(world.delivered("send_mail")) == 1
    assert gate.of(branch, "stopped")[0]["loop"] == "ended"


def test_it_holds_against_an_agent_that_swallows_exceptions(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    calls: list[str] = []

    def send_mail(recipient: str, subject: str, body: str) -> str:
        calls.append(body)
        return "sent"

    mail = recorder.wrap(send_mail)
    texts = iter(["first", "second"])

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        try:
            mail("a", "s", next(texts))
        except Exception:  # noqa: BLE001 - this is what agents do
            return {"done": True}
        if len(calls) == 1:
            raise ConnectionError("the node fails after its mail")
        return {"done": True}

    graph = one_node(recorder, world, writer, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
    run = recorder.start_run(graph, thread_id="t")
    with pytest.raises(Hold):
        run.invoke({"question": "?"})
    assert calls == ["first"]
    assert run.stop_cause == "approval_requested"
    assert recorder.flush(60)
    assert len(gate.of(run.run, "effect_held")) == 1


def test_it_gives_the_recorded_answer_to_a_node_that_is_tried_again(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    calls: list[int] = []

    def create_ticket(subject: str) -> dict[str, Any]:
        calls.append(1)
        return {"number": 17, "tags": ["a"]}

    ticket = recorder.wrap(create_ticket)
    answers: list[Any] = []

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        answers.append(ticket("case"))
        if len(answers) == 1:
            raise ConnectionError("once")
        return {"done": True}

    graph = one_node(recorder, world, writer, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"question": "?"})
    assert calls == [1]
    assert answers[0] == answers[1] == {"number": 17, "tags": ["a"]}
    assert recorder.flush(60)
    assert len(gate.of(run.run, "effect_reused")) == 1


def test_it_tells_two_equal_calls_of_one_execution_apart(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        return "done"

    ticket = recorder.wrap(create_ticket)
    graph = one_node(recorder, world, lambda state: {"both": [ticket("case"), ticket("case")]})
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"question": "?"})
    assert recorder.flush(60)
    keys = [each["operation_key"] for each in gate.of(run.run, "effect_intended")]
    assert len(set(keys)) == 2


def test_it_counts_equal_calls_in_a_loop(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        return "done"

    ticket = recorder.wrap(create_ticket)
    graph: Any = StateGraph(dict)
    graph.add_node("writer", lambda state: {"n": state.get("n", 0) + 1, "t": ticket("case")})
    graph.add_edge(START, "writer")
    graph.add_conditional_edges("writer", lambda state: "writer" if state["n"] < 3 else END, ["writer", END])
    run = recorder.start_run(graph.compile(checkpointer=world.saver()), thread_id="t")
    run.invoke({"n": 0})
    assert recorder.flush(60)
    assert len({each["operation_key"] for each in gate.of(run.run, "effect_intended")}) == 3


def test_it_skips_with_the_recorded_answer(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail="skip")
    )
    assert word == "natural_finish"
    (skipped,) = gate.of(branch, "effect_skipped")
    assert skipped["decision"] == "skip"
    assert len(world.delivered("send_mail")) == 1


def test_it_skips_with_what_the_tool_declares_when_no_answer_was_kept(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world, skip=lambda *given, **named: "not sent")
    run, operations = parent_run(recorder, gate, graph)
    forget(recorder, operations["send_mail"])
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail="skip")
    )
    assert word == "natural_finish"
    assert len(gate.of(branch, "effect_skipped")) == 1
    assert len(world.delivered("send_mail")) == 1


def test_it_gives_the_stand_in_back_for_a_delivery_whose_answer_never_came(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world, skip="delivered before")
    run, operations = parent_run(recorder, gate, graph)
    forget(recorder, operations["send_mail"])
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail="reuse")
    )
    assert word == "natural_finish"
    assert len(gate.of(branch, "effect_reused")) == 2
    assert graph.get_state({"configurable": {"thread_id": branch}}).values["messages"][-1].content == (
        "sent delivered before"
    )


def test_it_refuses_before_the_redemption_when_nothing_can_stand_in(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    forget(recorder, operations["send_mail"])
    _, word = resumed(recorder, gate, graph, run, operations=decided(operations, send_mail="skip"))
    assert word == "declined_on_skip_absent"
    _, word = resumed(recorder, gate, graph, run, operations=decided(operations, send_mail="reuse"))
    assert word == "declined_answer_absent"
    assert gate.redeem_calls == 0


def test_it_repeats_under_a_key_of_its_own(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    branch, word = resumed(
        recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse", send_mail="repeat")
    )
    assert word == "natural_finish"
    (sent,) = gate.of(branch, "effect_intended")
    assert sent["operation_key"] == f"{operations['send_mail']['operation_key']}+{branch}"
    keys = [each["key"] for each in world.delivered("send_mail")]
    assert len(set(keys)) == 2


def test_it_holds_what_a_sibling_did_after_the_permit_was_issued(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run, operations = parent_run(recorder, gate, graph)
    late = gate.permit(
        checkpoint=gate.of(run, "checkpoint")[2], operations=decided(operations, create_ticket="reuse")
    )
    resumed(recorder, gate, graph, run, operations=decided(operations, create_ticket="reuse"))
    assert len(world.delivered("send_mail")) == 2
    assert branching.resume(recorder, graph, late) == "approval_requested"
    assert len(world.delivered("send_mail")) == 2


def test_it_records_an_undeclared_tool_as_external_and_unknown(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def launch(where: str) -> None:
        return None

    wrapped = recorder.wrap(launch)
    graph = one_node(recorder, world, lambda state: {"x": wrapped("moon")})
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"q": 1})
    assert recorder.flush(60)
    (intended,) = gate.of(run.run, "effect_intended")
    assert intended["effect_class"] == "unknown"
    assert intended["key_strength"] == "weak"
    assert intended["tool"].startswith("hmac-sha256:")
    assert gate.refused == []


def test_it_records_a_read_without_asking_a_gate(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    calls: list[str] = []

    def search_notes(words: str) -> list[str]:
        calls.append(words)
        return []

    search = recorder.wrap(search_notes)
    answers = iter([ConnectionError("once"), None])

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        search("x")
        if (error := next(answers)) is not None:
            raise error
        return {"done": True}

    graph = one_node(recorder, world, writer, retry_policy=RetryPolicy(initial_interval=0.01, jitter=False))
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"q": 1})
    assert calls == ["x", "x"]
    assert recorder.flush(60)
    assert [each["effect_class"] for each in gate.of(run.run, "effect_intended")] == ["read", "read"]


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (TimeoutError("slow"), "no_answer"),
        (ValueError("odd"), "failed"),
        (DestinationRefused("no"), "refused"),
    ],
)
def test_it_says_what_came_of_a_call_that_raised(
    gate: Gate, world: World, error: Exception, answer: str
) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        raise error

    ticket = recorder.wrap(create_ticket)
    graph = one_node(recorder, world, lambda state: {"x": ticket("case")})
    run = recorder.start_run(graph, thread_id="t")
    with pytest.raises(type(error)):
        run.invoke({"q": 1})
    assert recorder.flush(60)
    assert [each["answer"] for each in gate.of(run.run, "effect_answered")] == [answer]
    (stopped,) = gate.of(run.run, "stopped")
    assert stopped["stop_cause"] == ("timeout" if answer == "no_answer" else "tool_error")


def test_it_records_a_call_from_a_raw_thread_without_a_checkpoint(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        return "done"

    ticket = recorder.wrap(create_ticket)

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        worker = threading.Thread(target=ticket, args=("case",))
        worker.start()
        worker.join()
        return {"x": 1}

    run = recorder.start_run(one_node(recorder, world, writer), thread_id="t")
    run.invoke({"q": 1})
    assert recorder.flush(60)
    assert [each["checkpoint"] for each in gate.of(run.run, "effect_intended")] == [None]


def test_it_sends_nothing_outside_a_run(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    def create_ticket(subject: str) -> str:
        raise AssertionError("must not be called")

    with pytest.raises(OutsideRun):
        recorder.wrap(create_ticket)("case")


def test_it_wraps_a_langchain_tool_and_leaves_its_schema_alone(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)

    @tool
    def create_ticket(subject: str, body: str = "none") -> str:
        """Open a ticket."""
        return world.deliver("create_ticket", subject=subject, body=body)

    wrapped = recorder.wrap(create_ticket)
    assert wrapped.args == create_ticket.args
    assert wrapped.name == "create_ticket"
    graph = one_node(recorder, world, lambda state: {"x": wrapped.invoke({"subject": "case"})})
    run = recorder.start_run(graph, thread_id="t")
    assert run.invoke({"q": 1})["x"] == "create_ticket-1"
    assert recorder.flush(60)
    (intended,) = gate.of(run.run, "effect_intended")
    assert intended["key_strength"] == "declared"
    assert world.delivered()[0]["key"] == intended["operation_key"]


def test_it_wraps_a_hand_written_tool_and_a_coroutine(gate: Gate, world: World) -> None:
    import asyncio

    from langchain_core.tools import BaseTool

    class CreateTicket(BaseTool):
        name: str = "create_ticket"
        description: str = "Open a ticket."

        def _run(self, subject: str) -> str:
            return f"done {subject}"

    async def send_mail(recipient: str, subject: str) -> str:
        return "sent"

    recorder = world.open(gate.url)
    ticket, mail = recorder.wrap(CreateTicket()), recorder.wrap(send_mail)

    def writer(state: dict[str, Any]) -> dict[str, Any]:
        return {"x": ticket.invoke({"subject": "case"}), "y": asyncio.run(mail("ada", "hello"))}

    run = recorder.start_run(one_node(recorder, world, writer), thread_id="t")
    values = run.invoke({"q": 1})
    assert (values["x"], values["y"]) == ("done case", "sent")
    assert recorder.flush(60)
    assert [each["tool"] for each in gate.of(run.run, "effect_intended")] == ["create_ticket", "send_mail"]
    assert {each["key_strength"] for each in gate.of(run.run, "effect_intended")} == {"declared"}


def test_it_digests_the_payload_as_destinations_do(gate: Gate, world: World) -> None:
    from debugger.recorder.conformance.gate import KEY

    recorder = world.open(gate.url)

    def create_ticket(subject: str, body: str = "né") -> str:
        return "done"

    ticket = recorder.wrap(create_ticket)
    graph = one_node(recorder, world, lambda state: {"x": ticket("case")})
    run = recorder.start_run(graph, thread_id="t")
    run.invoke({"q": 1})
    assert recorder.flush(60)
    (intended,) = gate.of(run.run, "effect_intended")
    text = 'create_ticket\0{"body":"né","subject":"case"}'
    assert intended["payload"] == KEY.digest("payload", text)


def test_it_keeps_the_secrets_of_its_home_to_itself(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    recorder.flush(60)
    for path in world.home.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path.relative_to(Path(world.home))
