"""A resume: checks first, one redemption, the parent untouched, one start."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from branches.evidence import ids
from branches.evidence.signing import Signer
from debugger.recorder import Recorder, attempts, branching, crash
from debugger.recorder.conformance import gate as gate_module
from debugger.recorder.conformance.gate import KEY, LEFT_OUT, Gate, claims_of
from tests.patience import ends
from tests.recorder.team import CONFIGURATION, World, ask, build

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def recorded(gate: Gate, world: World) -> tuple[Recorder, Any, str]:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorder.start_run(graph, thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    return recorder, graph, run.run


def reuse_all(gate: Gate, run: str) -> dict[str, dict[str, Any]]:
    return {
        each["operation_key"]: {"do": "reuse", "payload": each["payload"]}
        for each in gate.of(run, "effect_intended")
    }


def fork(gate: Gate, run: str) -> dict[str, Any]:
    return gate.of(run, "checkpoint")[2]


def threads(world: World) -> list[str]:
    with closing(sqlite3.connect(world.store)) as connection:
        return [each for (each,) in connection.execute("SELECT DISTINCT thread_id FROM checkpoints")]


def test_it_does_nothing_with_a_permit_that_is_not_signed_by_the_pinned_key(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, graph, run = recorded(gate, world)
    monkeypatch.setattr(gate_module, "SIGNER", Signer(b"x" * 32))
    assert branching.resume(recorder, graph, gate.permit(checkpoint=fork(gate, run))) == "ignored_unknown_key"
    assert gate.redeem_calls == 0
    assert threads(world) == ["t-1"]


def test_it_does_nothing_with_a_permit_for_another_recorder(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=fork(gate, run), audience=ids.mint("rec"))
    assert branching.resume(recorder, graph, envelope) == "ignored_audience"
    assert threads(world) == ["t-1"]


def test_it_does_nothing_with_an_expired_permit(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    then = datetime.now(UTC) - timedelta(minutes=5)
    envelope = gate.permit(
        checkpoint=fork(gate, run),
        issued_at=then.isoformat(),
        expires_at=(then + timedelta(minutes=4)).isoformat(),
    )
    assert branching.resume(recorder, graph, envelope) == "ignored_expired"
    assert gate.redeem_calls == 0


def test_it_makes_no_rows_when_the_gate_says_no(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.errors["redeem"] = 409
    envelope = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, envelope) == "refused_told_to"
    assert gate.declined == [(claims_of(envelope)["permit"], "told_to")]
    assert threads(world) == ["t-1"]
    assert len(world.delivered()) == 2


def test_it_makes_no_rows_when_the_gate_is_away(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.errors["redeem"] = 503
    envelope = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, envelope) == "gate_unreachable"
    assert threads(world) == ["t-1"]
    del gate.errors["redeem"]
    assert branching.resume(recorder, graph, envelope) == "natural_finish"


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"topology": "hmac-sha256:0badc0de:" + "0" * 64}, "topology_differs"),
        ({"topology": None}, "topology_unknown"),
        ({"configuration_parts": LEFT_OUT}, "configuration_unknown"),
        ({"configuration_parts": {}}, "configuration_unknown"),
        ({"configuration_parts": {"routing": None}}, "configuration_unknown"),
        ({"configuration_parts": {"routing": "sha256:" + "0" * 64}}, "configuration_differs"),
        ({"configuration": "sha256:" + "0" * 64}, "configuration_differs"),
        ({"workflow_version": "2.0.0"}, "workflow_differs"),
        ({"external_ref": "hmac-sha256:0badc0de:" + "0" * 64}, "checkpoint_absent"),
        ({"state": {"workspace": "hmac-sha256:0badc0de:" + "0" * 64}}, "state_drifted"),
        ({"edits": [{"edit": "hmac-sha256:0badc0de:" + "0" * 64, "edit_class": "other", "target": "x"}]},
         "edits_differ"),
        ({"operations": {"hmac-sha256:0badc0de:" + "0" * 64: {"do": "skip", "payload": None}}},
         "on_skip_absent"),
    ],
)  # fmt: skip
def test_it_declines_before_the_redemption_when_a_check_fails(
    gate: Gate, world: World, changed: dict[str, Any], rule: str
) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=fork(gate, run), **changed)
    assert branching.resume(recorder, graph, envelope) == f"declined_{rule}"
    assert gate.declined == [(claims_of(envelope)["permit"], rule)]
    assert gate.redeem_calls == 0
    assert threads(world) == ["t-1"]


def test_it_says_again_that_it_gave_up_a_permit_when_the_gate_was_away(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.redeem_refusals = ["not_ready:needs_approval"]
    gate.errors["decline"] = 503
    envelope = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, envelope) == "gate_unreachable"
    del gate.errors["decline"]
    assert branching.resume(recorder, graph, envelope) == "refused_not_ready:needs_approval"
    assert gate.declined == [(claims_of(envelope)["permit"], "not_ready")]
    assert gate.redeem_calls == 1


def test_it_asks_again_while_the_destination_gives_no_baseline(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, graph, run = recorded(gate, world)
    monkeypatch.setattr(attempts, "BASELINE_PAUSES_S", (0.01, 0.02))
    gate.redeem_refusals = ["baseline_unreachable"] * 2
    envelope = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    assert (gate.redeem_calls, gate.declined) == (3, [])


def test_it_declines_when_the_destination_never_gives_a_baseline(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, graph, run = recorded(gate, world)
    monkeypatch.setattr(attempts, "BASELINE_PAUSES_S", (0.01, 0.02))
    gate.redeem_refusals = ["baseline_unreachable"] * 9
    envelope = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, envelope) == "refused_baseline_unreachable"
    assert gate.redeem_calls == 3
    assert gate.declined == [(claims_of(envelope)["permit"], "baseline_unreachable")]


def test_it_does_not_wait_for_a_baseline_beyond_the_permit_s_life(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.redeem_refusals = ["baseline_unreachable"]
    lives = timedelta(minutes=10)
    monkeypatch.setattr(attempts, "BASELINE_PAUSES_S", (lives.total_seconds() + 1,))
    soon = datetime.now(UTC) + lives
    envelope = gate.permit(checkpoint=fork(gate, run), expires_at=soon.isoformat())
    with ends():
        assert branching.resume(recorder, graph, envelope) == "refused_baseline_unreachable"
    assert gate.redeem_calls == 1


def test_it_leaves_the_permit_alone_when_it_is_stopped_while_it_waits(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.redeem_refusals = ["baseline_unreachable"]
    envelope = gate.permit(checkpoint=fork(gate, run))
    word = branching.resume(recorder, graph, envelope, is_stopped=lambda _: True)
    assert (word, gate.declined) == ("gate_unreachable", [])
    assert branching.resume(recorder, graph, envelope) == "natural_finish"


def test_it_takes_the_acknowledged_state_that_the_permit_binds_and_no_other(gate: Gate, world: World) -> None:
    declared = gate.declaration["state_keys"]["workspace"]
    gate.declaration["state_keys"]["workspace"] = {**declared, "acknowledgeable": True}
    recorder, graph, run = recorded(gate, world)
    world.workspace.write_text("as a person saw it")
    state = {name: each["fingerprint"] for name, each in fork(gate, run)["state"].items()}
    accepted = state | {"workspace": KEY.digest("state", b"as a person saw it")}
    late = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, late) == "declined_state_drifted"
    world.workspace.write_text("and changed again")
    changed = gate.permit(checkpoint=fork(gate, run), state=accepted)
    assert branching.resume(recorder, graph, changed) == "declined_state_drifted"
    world.workspace.write_text("as a person saw it")
    envelope = gate.permit(checkpoint=fork(gate, run), state=accepted, operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, envelope) == "natural_finish"


def test_it_declines_a_graph_that_is_not_what_was_pinned_part_by_part(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=fork(gate, run))
    planner, *others = CONFIGURATION["agents"]
    for part, value in (
        ("role", "x"),
        ("model", "other"),
        ("prompt", "x"),
        ("tools", ["x"]),
        ("tools", None),
    ):
        recorder.declare({"agents": [{**planner, part: value}, *others]})
        word = branching.resume(recorder, graph, envelope)
        assert (part, word) == (part, "declined_configuration_differs")
    for agents in ([], others, [*CONFIGURATION["agents"], {**planner, "agent": "stranger"}]):
        recorder.declare({"agents": agents})
        assert branching.resume(recorder, graph, envelope) == "declined_configuration_differs"
    recorder.declare(CONFIGURATION)
    assert branching.resume(recorder, graph, envelope) == "natural_finish"


def test_it_declines_a_permit_whose_run_left_a_part_unknown(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    recorder.declare({"agents": CONFIGURATION["agents"][:2]})
    graph = build(recorder, world)
    recorder.start_run(graph, thread_id="t-1").invoke(ask())
    assert recorder.flush(60)
    silent = next(each for each in gate.started()["configuration"]["agents"] if each["agent"] == "publisher")
    assert {silent[part] for part in ("role", "model", "prompt", "tools")} == {None}
    envelope = gate.permit(checkpoint=fork(gate, gate.run_id()))
    assert branching.resume(recorder, graph, envelope) == "declined_configuration_unknown"


def test_it_declares_a_run_s_configuration_as_it_declared_the_graph_s(gate: Gate, world: World) -> None:
    recorded(gate, world)
    assert [each["agent"] for each in gate.started()["configuration"]["agents"]] == [
        "planner", "writer", "publisher",
    ]  # fmt: skip
    planner = gate.started()["configuration"]["agents"][0]
    assert planner["prompt"] == KEY.digest("prompt", CONFIGURATION["agents"][0]["prompt"])
    assert planner["role"] == KEY.digest("name", "role\0plans")
    assert planner["model"] == "fake-1"
    assert gate.started()["configuration"]["routing"] is not None


def test_it_declines_when_a_declared_tool_goes_past_the_recorder(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    assert gate.started()["recording"] == "full"
    del recorder.tools["send_mail"]
    word = branching.resume(recorder, graph, gate.permit(checkpoint=fork(gate, run)))
    assert word == "declined_tool_unwrapped"
    assert gate.redeem_calls == 0


def test_it_calls_a_recording_partial_where_a_declared_tool_is_not_wrapped(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    for tool, recording in (("search_notes", "full"), ("create_ticket", "partial")):
        recorder.tools.pop(tool, None)
        recorder.start_run(graph, thread_id=tool)
        assert recorder.flush(60)
        assert gate.started()["recording"] == recording


def test_it_declines_when_the_workspace_drifted(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    world.workspace.write_text("somebody was here")
    word = branching.resume(recorder, graph, gate.permit(checkpoint=fork(gate, run)))
    assert word == "declined_state_drifted"
    assert gate.redeem_calls == 0


def test_it_does_not_start_when_something_changed_between_redemption_and_restore(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder, graph, run = recorded(gate, world)
    redeem = recorder.client.redeem

    def late(*arguments: str) -> dict[str, Any]:
        world.workspace.write_text("somebody was here")
        return redeem(*arguments)

    monkeypatch.setattr(recorder.client, "redeem", late)
    envelope = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, envelope) == "not_restored"
    assert recorder.flush(60)
    branch = claims_of(envelope)["branch"]
    assert gate.of(branch, "restored")[0]["state"]["workspace"]["result"] == "drifted"
    assert gate.of(branch, "started") == []
    assert len(world.delivered()) == 2


def test_it_starts_a_branch_once_whoever_asks_again(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    assert branching.resume(recorder, graph, envelope) == "already_started"
    assert gate.redeem_calls == 1


def test_it_stops_before_the_next_step_when_authority_is_taken_back(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    gate.revoked_after = 2  # before the start, and before the first step
    envelope = gate.permit(checkpoint=fork(gate, run))
    assert branching.resume(recorder, graph, envelope) == "user_abort"
    assert recorder.flush(60)
    branch = claims_of(envelope)["branch"]
    assert [each["tool"] for each in gate.of(branch, "effect_intended")] == ["create_ticket"]
    assert gate.of(branch, "stopped")[0]["loop"] == "ended"


def test_it_stops_when_the_gate_stays_away_longer_than_the_lease(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=fork(gate, run))
    gate.errors["lease"] = 503
    assert branching.resume(recorder, graph, envelope) == "stopped_before_start"
    assert len(world.delivered()) == 2


def test_it_forks_a_branch_of_a_branch_under_the_root_s_keys(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    first = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, first) == "natural_finish"
    assert recorder.flush(60)
    parent = claims_of(first)["branch"]
    point = gate.of(parent, "checkpoint")[0]
    second = gate.permit(checkpoint=point, parent=parent, external_ref=None, operations=reuse_all(gate, run))
    assert branching.resume(recorder, graph, second) == "natural_finish"
    assert recorder.flush(60)
    (reused,) = gate.of(claims_of(second)["branch"], "effect_reused")
    assert reused["operation_key"] == gate.of(run, "effect_intended")[1]["operation_key"]
    assert len(world.delivered()) == 2


CHILD = """
import json, sys
from pathlib import Path
from debugger.recorder import branching
from tests.recorder.team import World, build, install_probes
install_probes()
world = World(Path(sys.argv[1]))
recorder = world.open(sys.argv[2])
graph = build(recorder, world)
word = branching.resume(recorder, graph, json.loads(sys.argv[3]))
recorder.flush(60)
recorder.close()
print(word)
"""


def in_child(world: World, gate: Gate, envelope: dict[str, Any], crash_at: str = "") -> tuple[int, str]:
    """Resume in a program of its own; returns its exit status and last word."""
    environment = {**os.environ, "BRANCHGATE_CRASH_AT": crash_at, "PYTHONPATH": str(Path.cwd())}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(world.folder), gate.url, json.dumps(envelope)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, (done.stdout.strip().splitlines() or [done.stderr[-500:]])[-1]


@pytest.mark.parametrize("point", crash.POINTS)
def test_it_redeems_once_and_starts_at_most_once_when_killed(gate: Gate, world: World, point: str) -> None:
    recorder, _, run = recorded(gate, world)
    operations = reuse_all(gate, run)
    mail = gate.of(run, "effect_intended")[1]["operation_key"]
    operations[mail] = {"do": "repeat", "payload": None}
    before = world.rows("t-1")
    recorder.close()
    world.recorders.clear()
    envelope = gate.permit(checkpoint=fork(gate, run), operations=operations)
    branch = claims_of(envelope)["branch"]
    status, _ = in_child(world, gate, envelope, crash_at=point)
    assert status == -signal.SIGKILL
    _, word = in_child(world, gate, envelope)
    again = in_child(world, gate, envelope)[1] if point == "after_redeem" else "already_started"
    goes_on = point not in {"after_starting", "after_started"}
    assert word == ("natural_finish" if goes_on else "already_started")
    assert again == "already_started"
    assert len(set(gate.redemptions.values())) == 1
    assert len(gate.redemptions) == 1
    assert len(gate.of(branch, "restored")) == 1
    assert len(gate.of(branch, "started")) == (0 if point == "after_starting" else 1)
    assert len(world.delivered("send_mail")) == (2 if goes_on else 1)
    assert world.rows("t-1") == before
    assert gate.refused == []


def test_it_starts_once_when_two_programs_get_the_same_permit(gate: Gate, world: World) -> None:
    recorder, _, run = recorded(gate, world)
    recorder.close()
    world.recorders.clear()
    envelope = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    with ThreadPool(2) as pool:
        words = [word for _, word in pool.map(lambda _: in_child(world, gate, envelope), range(2))]
    assert sorted(words) in (["already_started", "natural_finish"], ["busy", "natural_finish"])
    assert len(gate.of(claims_of(envelope)["branch"], "started")) == 1
