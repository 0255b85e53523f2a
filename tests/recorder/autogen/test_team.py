"""What passes in a real team while it runs: messages, edges, hand-overs, effects, checkpoints."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_core.tools import FunctionTool

from debugger.recorder import DestinationRefused, Hold, OutsideRun, Recorder, autogen
from debugger.recorder.gates import Do, Ruling
from tests.recorder.autogen.teams import (
    DECLARATION,
    MARKER,
    Bench,
    Desk,
    FakeModel,
    agent,
    call,
    opened,
    round_robin,
    swarm,
)

DONE = TextMentionTermination


def go(bench: Bench, team: Any, **options: Any) -> Any:
    async def run() -> Any:
        started = await autogen.record(bench.recorder, team, thread_id="monday")
        return await started.run_task(f"do it {MARKER}", **options)

    result = asyncio.run(run())
    bench.delivered()
    assert MARKER not in bench.everything()
    return result


def test_it_records_each_message_without_its_words(bench: Bench) -> None:
    go(bench, round_robin(agent("alice", f"one {MARKER}"), agent("bob", "two"), max_turns=2))
    said = bench.bodies("message")
    assert [(each["class"], each["sender"]) for each in said] == [
        ("input", None),
        ("answer", "alice"),
        ("answer", "bob"),
    ]
    assert [each["tokens"] for each in said] == [None, 2, 2]
    assert said[2]["replies_to"] == said[1]["message"]
    assert bench.edges() == ["alice>bob:message ok"]


def test_a_hand_over_is_accepted_by_the_first_thing_its_target_says(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), handoffs=["bob"])
    bob = agent("bob", f"DONE {MARKER}")
    go(bench, swarm(alice, bob, termination_condition=DONE("DONE", sources=["bob"])))
    assert [each["event"] for each in bench.bodies("handoff")] == ["delegated", "accepted", "completed"]
    assert [str(each.state) for each in bench.handoffs()] == ["false_success"]
    assert bench.edges() == ["alice>bob:handoff ok"]


@pytest.mark.parametrize(("named", "recorded"), [(None, "1"), ("2", "2")], ids=["default", "named"])
def test_a_run_and_all_its_edges_name_one_contract(tmp_path: Path, named: str | None, recorded: str) -> None:
    edge = {"from": "alice", "to": "bob", "kind": "message"}
    contract = {"version": "1", "agents": ["alice", "bob"], "edges": [edge], "phases": {"talk": []}}
    team = round_robin(agent("alice", "one"), agent("bob", "two"), max_turns=2)

    async def run(recorder: Recorder) -> None:
        started = await autogen.record(recorder, team, thread_id="monday", contract_version=named)
        await started.run_task("do it")
        started.interaction("bob", "alice", "message")

    with opened(tmp_path, {**DECLARATION, "contract": contract}) as bench:
        asyncio.run(run(bench.recorder))
        bench.delivered()
        assert bench.gate.started()["contract_version"] == recorded
        assert [each["contract_version"] for each in bench.bodies("interaction")] == [recorded] * 2


def test_a_workflow_without_a_contract_leaves_edges_without_one(bench: Bench) -> None:
    go(bench, round_robin(agent("alice", "one"), agent("bob", "two"), max_turns=2))
    assert bench.gate.started()["contract_version"] is None
    assert [each["contract_version"] for each in bench.bodies("interaction")] == [None]


def test_a_hand_over_that_nobody_took_up_is_orphaned_after_its_time(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), handoffs=["bob"])
    go(bench, swarm(alice, agent("bob"), termination_condition=HandoffTermination("bob")))
    assert [(str(each.state), list(each.reasons)) for each in bench.handoffs()] == [
        ("orphaned", ["not_accepted"])
    ]


def test_who_hands_on_waits_for_the_next_and_then_for_the_person(bench: Bench) -> None:
    alice = agent("alice", call("transfer_to_bob"), call("transfer_to_user"), handoffs=["bob", "user"])
    bob = agent("bob", call("transfer_to_alice"), handoffs=["alice"])
    go(bench, swarm(alice, bob, termination_condition=HandoffTermination("user")))
    assert [(str(each.state), list(each.reasons)) for each in bench.handoffs()] == [
        ("waiting", ["dependency:alice"]),
        ("waiting", ["dependency:approval"]),
    ]
    assert str(bench.stop().state) == "waiting_unrouted"


@pytest.mark.filterwarnings("ignore:Multiple handoffs detected")
def test_two_hand_overs_at_once_are_a_route_that_was_ambiguous(bench: Bench) -> None:
    both = [*call("transfer_to_bob", "1"), *call("transfer_to_user", "2")]
    alice = agent("alice", both, handoffs=["bob", "user"])
    go(bench, swarm(alice, agent("bob", "DONE"), termination_condition=DONE("DONE")))
    assert bench.edges().count("alice>bob:handoff error") == 1
    assert "alice>bob:handoff ok" in bench.edges()


def test_the_intent_lies_on_the_disk_before_the_tool_is_called(bench: Bench) -> None:
    desk, kept = Desk(), []

    def send_mail(recipient: str, text: str) -> str:
        """Send a mail."""
        spooled = [
            path.read_bytes() for path in (bench.folder / "home" / "spool").iterdir() if path.is_file()
        ]
        arrived = [each["kind"] for each in bench.gate.receipts]
        kept.append("effect_intended" in arrived or any(b"effect_intended" in each for each in spooled))
        return desk.send_mail(recipient, text)

    mail = autogen.wrap(bench.recorder, send_mail)
    alice = agent("alice", call("send_mail", recipient="r", text=MARKER), tools=[mail])
    result = go(bench, round_robin(alice, max_turns=1))
    assert f"sent {MARKER}" in result.messages[-1].content
    assert kept == [True]
    (intended,), (answered,) = bench.bodies("effect_intended"), bench.bodies("effect_answered")
    assert desk.sent == [("r", intended["operation_key"])]
    assert (
        intended["tool"],
        intended["destination"],
        intended["effect_class"],
        intended["key_strength"],
    ) == (
        "send_mail",
        "desk.mail",
        "irreversible",
        "declared",
    )
    assert intended["checkpoint"] == bench.bodies("checkpoint")[0]["checkpoint"]
    assert answered["answer"] == "acknowledged"


def test_equal_calls_are_operations_of_their_own(bench: Bench) -> None:
    desk = Desk()
    mail = autogen.wrap(bench.recorder, FunctionTool(desk.send_mail, description="Send a mail."))
    twice = [
        *call("send_mail", "1", recipient="r", text="a"),
        *call("send_mail", "2", recipient="r", text="a"),
    ]
    go(bench, round_robin(agent("alice", twice, tools=[mail]), max_turns=1))
    assert len({key for _, key in desk.sent}) == len(bench.bodies("effect_intended")) == 2


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (DestinationRefused(MARKER), "refused"),
        (TimeoutError(MARKER), "no_answer"),
        (OSError(MARKER), "failed"),
    ],
)
def test_only_a_destinations_own_no_is_a_refusal(bench: Bench, error: Exception, answer: str) -> None:
    async def send_mail(recipient: str) -> str:
        """Send a mail."""
        raise error

    mail = autogen.wrap(bench.recorder, send_mail)
    go(bench, round_robin(agent("alice", call("send_mail", recipient="r"), tools=[mail]), max_turns=1))
    assert [each["answer"] for each in bench.bodies("effect_answered")] == [answer]
    assert str(bench.stop().state) == "failed"


def test_arguments_that_do_not_fit_reach_no_tool(bench: Bench) -> None:
    desk = Desk()
    mail = autogen.wrap(bench.recorder, desk.send_mail)
    go(bench, round_robin(agent("alice", call("send_mail", wrong=MARKER), tools=[mail]), max_turns=1))
    assert (desk.sent, bench.bodies("effect_intended")) == ([], [])
    assert str(bench.stop().state) == "failed"


def test_a_recorded_tool_does_nothing_outside_a_run(bench: Bench) -> None:
    from autogen_core import CancellationToken

    desk = Desk()
    mail = autogen.wrap(bench.recorder, desk.send_mail)
    with pytest.raises(OutsideRun):
        asyncio.run(mail.run_json({"recipient": "r", "text": "t"}, CancellationToken()))
    assert desk.sent == []


def test_two_teams_at_once_keep_their_effects_apart(bench: Bench) -> None:
    desk = Desk()
    mail = autogen.wrap(bench.recorder, desk.send_mail)

    async def one(name: str) -> str:
        team = round_robin(
            agent(name, call("send_mail", recipient=name, text="t"), tools=[mail]), max_turns=1
        )
        started = await autogen.record(bench.recorder, team, thread_id=name)
        await started.run_task("go")
        return started.run

    async def both() -> list[str]:
        return list(await asyncio.gather(one("alice"), one("bob")))

    runs = asyncio.run(both())
    bench.delivered()
    keys = [bench.gate.of(run, "effect_intended")[0]["operation_key"] for run in runs]
    assert sorted(desk.sent) == sorted(zip(("alice", "bob"), keys, strict=True))


class Holding:
    """A gate that lets nothing through."""

    def rule(self, call: Any, operation_key: str) -> Ruling:
        return Ruling(Do.HOLD, operation_key)


def test_a_hold_ends_the_team_that_would_stay_pending(bench: Bench) -> None:
    desk = Desk()
    mail = autogen.wrap(bench.recorder, desk.send_mail)
    team = round_robin(agent("alice", call("send_mail", recipient="r", text="t"), tools=[mail]), max_turns=2)

    async def run() -> Any:
        started = await autogen.record(bench.recorder, team, thread_id="1", settle_s=0.05)
        started.record.gate = Holding()
        with pytest.raises(Hold):
            await started.run_task("go")
        with pytest.raises(autogen.TeamSpent, match="not_at_rest"):
            await started.run_task("again")

    asyncio.run(run())
    bench.delivered()
    assert desk.sent == []
    assert len(bench.bodies("effect_held")) == 1
    assert str(bench.stop().state) == "waiting_unrouted"


def test_it_fingerprints_the_team_only_at_rest(bench: Bench) -> None:
    team = round_robin(agent("alice", "a"), agent("bob", "b"), max_turns=2)

    async def run() -> None:
        started = await autogen.record(bench.recorder, team, thread_id="1")
        async for message in started.stream("go"):
            if getattr(message, "source", "") == "alice":
                await started.checkpoint()

    asyncio.run(run())
    found = bench.delivered().bodies("checkpoint")
    assert [each["consistent"] for each in found] == [True, False, True]
    assert [each["parent_checkpoint"] for each in found[1:]] == [each["checkpoint"] for each in found[:-1]]
    memory = [each["state"]["team_memory"] for each in found]
    assert memory[0]["fingerprint"] != memory[2]["fingerprint"]
    assert (memory[2]["facts"]["agents"], memory[2]["facts"]["messages"]) == (2, 3)


def test_its_fingerprint_is_the_same_after_save_and_load(bench: Bench) -> None:
    def team() -> Any:
        return round_robin(agent("alice", "a"), agent("bob", "b"), max_turns=2)

    async def run() -> None:
        first, second = team(), team()
        await (await autogen.record(bench.recorder, first, thread_id="1")).run_task("go")
        await autogen.load_team(bench.recorder, second, await autogen.save_team(bench.recorder, first))
        await autogen.record(bench.recorder, second, thread_id="2")

    asyncio.run(run())
    bench.delivered()
    states = [
        each["body"]["state"]["team_memory"]["fingerprint"]
        for each in bench.gate.receipts
        if each["kind"] == "checkpoint"
    ]
    assert states[-1] == states[-2] != states[0]


@pytest.mark.parametrize(
    "changed",
    [
        lambda: round_robin(agent("alice", system_message="another"), agent("bob"), max_turns=2),
        lambda: round_robin(agent("alice", model=FakeModel(model="fake-2")), agent("bob"), max_turns=2),
        lambda: round_robin(agent("alice", tools=[Desk().look_up]), agent("bob"), max_turns=2),
        lambda: round_robin(agent("alice"), max_turns=2),
        lambda: round_robin(agent("bob"), agent("alice"), max_turns=2),
        lambda: round_robin(agent("alice"), agent("bob"), max_turns=3),
        lambda: swarm(agent("alice", handoffs=["bob"]), agent("bob"), max_turns=2),
    ],
    ids=["prompt", "model", "tools", "dropped", "order", "limit", "routing"],
)
def test_a_state_is_not_loaded_into_a_team_that_is_made_of_something_else(bench: Bench, changed: Any) -> None:
    async def run() -> None:
        saved = await autogen.save_team(
            bench.recorder, round_robin(agent("alice"), agent("bob"), max_turns=2)
        )
        with pytest.raises(autogen.SavedUnfit, match="configuration_differs"):
            await autogen.load_team(bench.recorder, changed(), saved)

    asyncio.run(run())


def test_a_state_with_a_message_twice_is_neither_saved_nor_loaded(bench: Bench) -> None:
    def team(*answers: Any) -> Any:
        return round_robin(agent("alice", "one"), agent("bob", *answers), max_turns=2)

    async def run() -> None:
        failed = team(RuntimeError("boom"))
        started = await autogen.record(bench.recorder, failed, thread_id="1")
        with pytest.raises(RuntimeError):
            await started.run_task("go")
        with pytest.raises(autogen.SavedUnfit, match="doubled_message"):
            await autogen.save_team(bench.recorder, failed)
        fresh = await autogen.save_team(bench.recorder, team())
        with pytest.raises(autogen.SavedUnfit, match="doubled_message"):
            await autogen.load_team(bench.recorder, team(), {**fresh, "state": await failed.save_state()})

    asyncio.run(run())


def test_its_configuration_names_the_parts_by_digest(bench: Bench) -> None:
    async def look_up(word: str) -> str:
        """Look a word up."""
        return word

    look = autogen.wrap(bench.recorder, look_up)

    def started(**options: Any) -> dict[str, Any]:
        go(bench, round_robin(agent("alice", "x", tools=[look], **options), agent("bob", "y"), max_turns=1))
        return {each["agent"]: each for each in bench.gate.started()["configuration"]["agents"]}

    first, same, other = started(), started(), started(system_message=f"other {MARKER}")
    assert first == same
    assert (first["alice"]["model"], None in first["alice"].values()) == ("fake-1", False)
    assert {part for part, digest in first["alice"].items() if other["alice"][part] != digest} == {"prompt"}
    assert bench.gate.started()["runtime"] == {"name": "autogen", "version": "0.7.5"}


def test_a_recording_is_full_only_when_every_writing_tool_is_wrapped(bench: Bench) -> None:
    desk = Desk()

    def recording(*tools: Any) -> str:
        go(bench, round_robin(agent("alice", "x", tools=list(tools)), max_turns=1))
        return str(bench.gate.started()["recording"])

    assert recording(desk.look_up) == "partial"  # the workflow declares a tool that nobody wrapped
    mail = autogen.wrap(bench.recorder, desk.send_mail)
    assert recording(mail, desk.look_up) == "full"

    def other() -> str:
        """Do anything."""
        return ""

    assert recording(mail, other) == "partial"
    assert recording(desk.send_mail) == "partial"


def test_messages_of_several_tasks_are_counted_by_task(bench: Bench) -> None:
    team = round_robin(
        agent("alice", *"abcd"), agent("bob", *"abcd"), termination_condition=MaxMessageTermination(3)
    )

    async def run() -> None:
        started = await autogen.record(bench.recorder, team, thread_id="1")
        await started.run_task("go")
        await started.run_task("more")

    asyncio.run(run())
    bench.delivered()
    assert [len(each["steps"]) for each in bench.bodies("stopped")] == [3, 3]
    assert str(bench.stop().state) == "bounded_stop"


def test_a_tool_that_streams_is_not_taken_for_one_call(bench: Bench) -> None:
    from autogen_agentchat.tools import AgentTool

    with pytest.raises(TypeError, match="streams"):
        autogen.wrap(bench.recorder, AgentTool(agent("alice")))
