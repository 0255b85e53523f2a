"""A resume from a saved RunState: checks first, one redemption, a trace of its own, one start."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings, RunConfig, SQLiteSession

from branches.evidence.domains import THREAD
from debugger.recorder import openai_agents
from debugger.recorder.conformance.gate import KEY, claims_of
from debugger.recorder.openai_agents import branching
from debugger.recorder.openai_agents.runs import AgentsRun
from tests.recorder.openai_agents.crew import MARKER, Bench, Scripted, calls, says

HANDOVER = [calls("transfer_to_billing", "h1")]
REFUND = [calls("refund", "c1", order="7", note=MARKER)]
WAITING = 2
"""The checkpoint at which the recorded run waits: the start, the hand-over, the refund."""


def yes(item: Any) -> bool:
    return True


def waiting(bench: Bench, **options: Any) -> AgentsRun:
    """Record a run that waits for a person with a refund."""
    return bench.run(bench.crew(HANDOVER, REFUND), **options)


def fork(bench: Bench, at: int = WAITING, run: str | None = None) -> dict[str, Any]:
    return bench.bodies("checkpoint", run)[at]


def resume(bench: Bench, envelope: dict[str, Any], *script: Any, agent: Any = None, **options: Any) -> str:
    crew = agent or bench.crew(*(script or ([says()],)))
    return branching.resume(bench.recorder, crew, envelope, **{"decide": yes, **options})


def branch_of(envelope: dict[str, Any]) -> str:
    return str(claims_of(envelope)["branch"])


def decisions(bench: Bench, word: str, run: str | None = None) -> dict[str, dict[str, Any]]:
    return {
        each["operation_key"]: {"do": word, "payload": each["payload"]}
        for each in bench.bodies("effect_intended", run)
    }


def test_it_resumes_a_waiting_run_as_a_branch_with_a_trace_of_its_own(bench: Bench) -> None:
    run = waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "natural_finish"
    branch = branch_of(envelope)
    assert bench.kinds(branch) == [
        "restored", "started", "effect_intended", "effect_answered", "progress", "message", "checkpoint",
        "message", "checkpoint", "progress", "stopped", "recording_closed",
    ]  # fmt: skip
    assert bench.bodies("recording_closed", branch) == [{"count": 12}]
    (restored,) = bench.bodies("restored", branch)
    assert [each["result"] for each in restored["state"].values()] == ["matched"]
    assert [order for order, _ in bench.desk] == ["7"]
    assert bench.stop(branch) == ("false_complete", ["no_receipt"])
    states = [
        json.loads(file.read_text()) for file in sorted((bench.folder / "home/states" / branch).iterdir())
    ]
    traces = [each["state"]["trace"]["id"] for each in states]
    assert traces[0] == run.trace  # the copy of the parent's
    assert len(set(traces[1:])) == 1
    assert run.trace not in traces[1:]


@pytest.mark.parametrize(("named", "recorded"), [(None, "1"), ("2", "2")], ids=["default", "named"])
def test_a_run_and_its_edges_name_one_contract_and_a_branch_none(
    bench: Bench, named: str | None, recorded: str
) -> None:
    run = bench.record(bench.crew(HANDOVER, [says()]), contract_version=named)
    asyncio.run(run.start(f"help {MARKER}"))
    edges = bench.bodies("interaction", run.run)
    assert bench.gate.started()["contract_version"] == recorded
    assert [each["contract_version"] for each in edges] == [recorded]
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, HANDOVER, [says()]) == "natural_finish"
    again = bench.bodies("interaction", branch_of(envelope))
    assert [each.pop("contract_version") for each in again] == [None]
    assert again == [{name: word for name, word in edges[0].items() if name != "contract_version"}]


def test_the_effect_of_a_branch_keeps_the_key_that_the_root_gives_it(bench: Bench) -> None:
    waiting(bench)
    first, second = (bench.gate.permit(checkpoint=fork(bench)) for _ in range(2))
    assert resume(bench, first) == "natural_finish"
    (key,) = (each["operation_key"] for each in bench.bodies("effect_intended", branch_of(first)))
    # The sibling's permit was issued before the other one refunded, and so it does not know of it.
    assert resume(bench, second) == "approval_requested"
    assert bench.bodies("effect_held", branch_of(second))[0]["operation_key"] == key
    assert [order for order, _ in bench.desk] == ["7"]


def test_an_approved_call_that_the_parent_made_is_not_made_again(bench: Bench) -> None:
    run = waiting(bench)
    asyncio.run(run.resume(yes))
    operations = decisions(bench, "reuse", run.run)
    envelope = bench.gate.permit(checkpoint=fork(bench), operations=operations)
    assert resume(bench, envelope) == "natural_finish"
    assert [each["operation_key"] for each in bench.bodies("effect_reused", branch_of(envelope))] == [
        *operations
    ]
    skipped = bench.gate.permit(checkpoint=fork(bench), operations=decisions(bench, "skip", run.run))
    assert resume(bench, skipped) == "natural_finish"
    assert len(bench.bodies("effect_skipped", branch_of(skipped))) == 1
    assert [order for order, _ in bench.desk] == ["7"]
    repeated = bench.gate.permit(checkpoint=fork(bench), operations=decisions(bench, "repeat", run.run))
    assert resume(bench, repeated) == "natural_finish"
    assert [order for order, _ in bench.desk] == ["7", "7"]


def test_a_permit_starts_one_branch_whoever_asks_again(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "natural_finish"
    assert resume(bench, envelope) == "already_started"
    assert (bench.gate.redeem_calls, len(bench.desk)) == (1, 1)
    assert len(bench.bodies("started", branch_of(envelope))) == 1


def test_a_branch_in_which_nobody_answered_waits_again(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope, decide=None) == "approval_requested"
    assert bench.desk == []
    assert bench.stop(branch_of(envelope)) == ("waiting_unrouted", ["no_deadline", "no_owner"])


def test_a_no_is_kept_and_nothing_is_called(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope, decide=lambda item: False) == "natural_finish"
    assert bench.desk == []
    assert bench.bodies("effect_intended", branch_of(envelope)) == []


def test_it_forks_before_the_first_turn_and_after_any_other(bench: Bench) -> None:
    waiting(bench)
    start = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, start, HANDOVER, [says()]) == "natural_finish"
    assert bench.edges(branch_of(start)) == ["triage>billing:handoff ok"]
    assert [each["class"] for each in bench.bodies("message", branch_of(start))] == [
        "handoff", "handoff", "answer",
    ]  # fmt: skip
    handed = bench.gate.permit(checkpoint=fork(bench, 1))
    assert resume(bench, handed, [says()]) == "natural_finish"
    assert [each["sender"] for each in bench.bodies("message", branch_of(handed))] == ["billing"]
    assert [each["step"] for each in bench.bodies("checkpoint", branch_of(handed))] == [2]
    assert bench.desk == []


def test_it_forks_a_branch_of_a_branch(bench: Bench) -> None:
    waiting(bench)
    first = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, first) == "natural_finish"
    parent = branch_of(first)
    second = bench.gate.permit(checkpoint=fork(bench, 0, parent), parent=parent, external_ref=None)
    assert resume(bench, second) == "natural_finish"
    assert bench.kinds(branch_of(second))[:2] == ["restored", "started"]
    assert [order for order, _ in bench.desk] == ["7"]


def test_the_limit_counts_the_turns_before_the_fork(bench: Bench) -> None:
    waiting(bench, max_turns=3)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    looks = [[calls("look_up", f"c{number}", order="7")] for number in range(9)]
    assert resume(bench, envelope, *looks) == "step_limit"
    branch = branch_of(envelope)
    assert len(bench.bodies("stopped", branch)[0]["steps"]) == 3
    assert bench.stop(branch) == ("bounded_stop", ["step_limit"])


def instructions(crew: Agent[Any]) -> None:
    crew.instructions = "Route otherwise."


def swapped_tool(crew: Agent[Any]) -> None:
    crew.handoffs[0].tools = crew.handoffs[0].tools[:1]  # type: ignore[union-attr]


def model(crew: Agent[Any]) -> None:
    crew.model = Scripted([says()], model="other-1")


def unknown_model(crew: Agent[Any]) -> None:
    crew.model = Scripted([says()], model=None)  # type: ignore[arg-type]


def role(crew: Agent[Any]) -> None:
    crew.handoff_description = "somebody else"


def settings(crew: Agent[Any]) -> None:
    crew.model_settings = ModelSettings(temperature=1.5)


def lost_agent(crew: Agent[Any]) -> None:
    crew.handoffs = crew.handoffs[:1]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (instructions, "configuration_differs"),
        (model, "configuration_differs"),
        (unknown_model, "topology_differs"),
        (role, "configuration_differs"),
        (swapped_tool, "topology_differs"),
        (settings, "topology_differs"),
        (lost_agent, "topology_differs"),
    ],
)
def test_agents_that_are_not_what_was_pinned_are_refused_before_the_redemption(
    bench: Bench, change: Callable[[Agent[Any]], None], rule: str
) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    crew = bench.crew([says()])
    change(crew)
    assert resume(bench, envelope, agent=crew) == f"declined_{rule}"
    assert bench.gate.declined == [(claims_of(envelope)["permit"], rule)]
    assert (bench.gate.redeem_calls, bench.desk) == (0, [])


def test_a_tool_with_the_same_form_and_another_source_is_refused(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    crew = bench.crew([says()])

    def refund(order: str, note: str = "") -> str:
        return "another source"

    other = openai_agents.wrap(bench.recorder, refund, on_skip="was refunded", needs_approval=True)
    billing = crew.handoffs[0]
    assert isinstance(billing, Agent)
    billing.tools = [billing.tools[0], other]
    assert resume(bench, envelope, agent=crew) == "declined_topology_differs"


def test_a_run_configuration_with_another_model_is_refused(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    other = RunConfig(model=Scripted([says()], model="other-1"))
    assert resume(bench, envelope, run_config=other) == "declined_configuration_differs"
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope, run_config=RunConfig(model="fake-1")) == "declined_topology_differs"


def test_a_tool_that_goes_past_the_recorder_is_refused(bench: Bench) -> None:
    from agents import function_tool

    def refund(order: str) -> str:
        return order

    agent = Agent(name="billing", model=Scripted(HANDOVER), tools=[function_tool(refund)])
    for name in ("triage", "legal"):
        agent.handoffs.append(Agent(name=name, model=Scripted()))
    with pytest.raises(Exception, match="transfer_to_billing"):
        bench.run(agent)
    envelope = bench.gate.permit(checkpoint=fork(bench, 0))
    assert resume(bench, envelope, agent=agent) == "declined_tool_unwrapped"


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"topology": None}, "topology_unknown"),
        ({"configuration_parts": {}}, "configuration_unknown"),
        ({"workflow_version": "2.0.0"}, "workflow_differs"),
        ({"external_ref": "hmac-sha256:0badc0de:" + "0" * 64}, "checkpoint_absent"),
        ({"state": {"agent_memory": "hmac-sha256:0badc0de:" + "0" * 64}}, "state_drifted"),
        ({"edits": [{"edit": "hmac-sha256:0badc0de:" + "0" * 64, "edit_class": "other", "target": "x"}]},
         "edits_unsupported"),
        ({"operations": {"hmac-sha256:0badc0de:" + "0" * 64: {"do": "skip", "payload": None}}},
         "on_skip_absent"),
    ],
)  # fmt: skip
def test_it_declines_what_a_permit_binds_and_is_not_here(
    bench: Bench, changed: dict[str, Any], rule: str
) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench), **changed)
    assert resume(bench, envelope) == f"declined_{rule}"
    assert bench.gate.redeem_calls == 0


def edited(bench: Bench, change: Callable[[dict[str, Any]], None], thread: str) -> None:
    """Change the newest saved state of a run, as somebody with a text editor would."""
    file = max((bench.folder / "home" / "states" / thread).iterdir())
    found = json.loads(file.read_text())
    change(found)
    file.write_text(json.dumps(found))


def test_an_approval_that_was_written_into_the_file_is_drift(bench: Bench) -> None:
    run = waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    forged = [{"agent": {"name": "billing"}, "tool_key": "refund",
               "decision": {"approved": ["c1"], "rejected": []}}]  # fmt: skip
    edited(bench, lambda found: found["state"]["context"].update(function_tool_approvals=forged), run.trace)
    assert resume(bench, envelope, decide=None) == "declined_state_drifted"
    assert bench.desk == []


def test_a_yes_to_all_calls_to_come_is_not_carried_into_a_branch(bench: Bench) -> None:
    class Always(dict[str, Any]):
        pass

    run = bench.record(bench.crew(HANDOVER, REFUND))
    result = asyncio.run(run.start(f"help {MARKER}"))
    state = result.to_state()
    state.approve(state.get_interruptions()[0], always_approve=True)
    found = state.to_json()
    edited(bench, lambda saved: saved["state"].update(context=found["context"]), run.trace)
    memory = branching.StateFolder(bench.folder / "home" / "states")
    point = fork(bench)
    ((_, saved),) = memory.find(KEY, KEY.digest(THREAD, run.trace), point["checkpoint"])
    pinned = {"agent_memory": saved.fingerprint(KEY)}
    envelope = bench.gate.permit(checkpoint=point, state=pinned)
    assert resume(bench, envelope) == "declined_approval_for_calls_to_come"


def test_a_finished_state_has_nothing_left(bench: Bench) -> None:
    bench.run(bench.crew([says()]))
    envelope = bench.gate.permit(checkpoint=fork(bench, 1))
    assert resume(bench, envelope) == "declined_nothing_left"


def test_a_state_of_another_version_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    monkeypatch.setattr(branching, "SCHEMA", "1.22")
    assert resume(bench, envelope) == "declined_state_version_unknown"


def test_a_conversation_at_the_provider_has_no_branch(bench: Bench) -> None:
    run = bench.record(bench.crew(HANDOVER, REFUND))
    asyncio.run(run.start("help", previous_response_id="r-0"))
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "declined_conversation_on_server"


def test_a_context_that_was_not_kept_has_to_be_made_anew(bench: Bench) -> None:
    class Desk:
        pass

    waiting(bench, context=Desk())
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "declined_context_absent"
    again = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, again, context=Desk) == "natural_finish"


def test_siblings_of_a_run_with_a_session_leave_the_session_alone(bench: Bench) -> None:
    session = SQLiteSession("s-1", bench.folder / "session.sqlite")
    waiting(bench, session=session)
    before = asyncio.run(session.get_items())
    for _ in range(2):
        envelope = bench.gate.permit(checkpoint=fork(bench))
        assert resume(bench, envelope, decide=lambda item: False) == "natural_finish"
    assert asyncio.run(session.get_items()) == before
    session.close()


def test_it_does_not_start_when_the_state_changed_between_redemption_and_restore(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = waiting(bench)
    redeem = bench.recorder.client.redeem

    def late(*arguments: str) -> dict[str, Any]:
        answer = redeem(*arguments)
        monkeypatch.setattr(branching.StateFolder, "save", lambda *_: None)
        return answer

    monkeypatch.setattr(bench.recorder.client, "redeem", late)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "not_restored"
    branch = branch_of(envelope)
    assert bench.kinds(branch) == ["restored"]
    assert bench.bodies("restored", branch)[0]["state"]["agent_memory"]["result"] == "not_restored"
    assert (bench.desk, run.stop_cause) == ([], "approval_requested")


def test_it_stops_before_the_next_turn_when_authority_is_taken_back(bench: Bench) -> None:
    waiting(bench)
    bench.gate.revoked_after = 2  # before the start, and before the first turn
    envelope = bench.gate.permit(checkpoint=fork(bench))
    crew = bench.crew([says()])
    assert resume(bench, envelope, agent=crew) == "user_abort"
    assert [order for order, _ in bench.desk] == ["7"]
    assert crew.model.asked == 0  # type: ignore[union-attr]
    assert bench.bodies("stopped", branch_of(envelope))[0]["loop"] == "ended"


def test_it_stops_when_the_gate_stays_away_longer_than_the_lease(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    bench.gate.errors["lease"] = 503
    assert resume(bench, envelope) == "stopped_before_start"
    assert bench.desk == []


def test_a_time_limit_that_no_receipt_can_carry_leaves_the_permit_alone(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    with pytest.raises(ValueError, match="timeout_s: not_finite"):
        resume(bench, envelope, timeout_s=float("inf"))
    assert resume(bench, envelope, timeout_s=60) == "natural_finish"


def test_a_copied_home_does_not_start_a_permit_again(bench: Bench, tmp_path: Path) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    shutil.copytree(tmp_path / "home", tmp_path / "copy" / "home")
    bench.folder = tmp_path / "copy"
    copied = bench.open()
    bench.folder = tmp_path
    assert resume(bench, envelope) == "natural_finish"
    again = bench.crew([says()], recorder=copied)
    assert branching.resume(copied, again, envelope, decide=yes) == "refused_already_redeemed"
    assert [order for order, _ in bench.desk] == ["7"]


def test_without_the_gate_nothing_resumes(bench: Bench) -> None:
    waiting(bench)
    bench.gate.errors["redeem"] = 503
    envelope = bench.gate.permit(checkpoint=fork(bench))
    assert resume(bench, envelope) == "gate_unreachable"
    assert not (bench.folder / "home/states" / branch_of(envelope)).exists()
    del bench.gate.errors["redeem"]
    assert resume(bench, envelope) == "natural_finish"


def test_the_parent_s_states_stay_as_they_were(bench: Bench) -> None:
    run = waiting(bench)
    place = bench.folder / "home" / "states" / run.trace
    before = {file.name: file.read_bytes() for file in place.iterdir()}
    assert resume(bench, bench.gate.permit(checkpoint=fork(bench))) == "natural_finish"
    assert {file.name: file.read_bytes() for file in place.iterdir()} == before
