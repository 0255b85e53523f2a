"""The team fails as the demo needs it, and an edited brief makes a branch publish a new report."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from branches.ports import Answer, Baseline, Check, Moment, Question, Target
from branches.queries.workflow_form import problem_of
from branches.registry import find
from branches.rules.facts import Fields
from branches.rules.topology_facts import check_contract, read_contract
from debugger.demo import team, world
from debugger.demo.declared import server_targets
from debugger.demo.desk import Desk
from debugger.demo.layout import DemoWorld
from debugger.demo.script import MARKER, PROMPTS, ScriptedModel, Seen
from debugger.recorder import Recorder, branching
from debugger.recorder.conformance.gate import KEY, Gate, claims_of
from debugger.supervisor import free_port
from tests.patience import comes

EDITED = f"Brief: have the figures verified, then publish them in the reports section. {MARKER}"
PLACES = {
    "create_ticket": "desk-tickets",
    "send_mail": "desk-mail",
    "create_draft": "desk-drafts",
    "publish_draft": "desk-drafts",
}


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[DemoWorld]:
    made = world.lay_out(tmp_path / "demo", free_port(), sys.executable)
    desk = Desk(made.desk_port, made.desk_store, 0.3)
    Thread(target=desk.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    desk.shutdown()
    desk.server_close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate(world.declaration())
    yield made
    made.close()


def place(demo: DemoWorld, name: str) -> Target:
    return Target(name, server_targets(demo)[name], KEY)


def ask(demo: DemoWorld, effect: dict[str, Any]) -> Answer:
    question = Question(effect["operation_key"], effect["tool"], effect["payload"])
    return find("destinations", "http_json").ask(place(demo, PLACES[effect["tool"]]), question).answer


def kept(demo: DemoWorld, sort: str) -> int:
    with closing(sqlite3.connect(demo.desk_store)) as connection:
        return connection.execute("SELECT count(*) FROM kept WHERE sort = ?", (sort,)).fetchone()[0]


def test_it_fails_to_publish_says_it_did_and_a_branch_does_it(demo: DemoWorld, gate: Gate) -> None:
    run = world.run_team(demo, gate.url, "secret-token")
    assert gate.refused == []
    assert MARKER not in json.dumps(gate.receipts)
    assert (run.stop_cause, run.delivered) == ("natural_finish", True)
    effects = gate.of(run.run, "effect_intended")
    assert [each["tool"] for each in effects] == [
        "search_notes", "create_ticket", "send_mail", "create_draft", "publish_draft",
    ]  # fmt: skip
    answers = {each["operation_key"]: each["answer"] for each in gate.of(run.run, "effect_answered")}
    assert [answers[each["operation_key"]] for each in effects[1:]] == [*["acknowledged"] * 3, "refused"]
    asked = {each["tool"]: ask(demo, each) for each in effects[1:]}
    assert list(asked.values()) == [*[Answer.PRESENT] * 3, Answer.ABSENT]
    assert gate.of(run.run, "stopped")[0]["loop"] == "claimed"

    verifier, reports = find("verifiers", "http_json"), place(demo, "desk-reports")
    baseline = verifier.baseline(reports, "report-published")
    assert baseline == Baseline("1", reachable=True)
    assert verifier.check(reports, "report-published", baseline.version).check is Check.FAILED

    branch, word = resume(demo, gate, run, effects)
    assert word == "natural_finish"
    assert gate.refused == []
    assert len(gate.of(branch, "effect_reused")) == 1
    assert len(gate.of(branch, "effect_skipped")) == 1
    assert [each["tool"] for each in gate.of(branch, "effect_intended")] == ["create_draft", "publish_draft"]
    assert (kept(demo, "ticket"), kept(demo, "mail"), kept(demo, "draft")) == (1, 1, 2)
    assert comes(lambda: verifier.check(reports, "report-published", "1").check is Check.PASSED)
    found = verifier.check(reports, "report-published", "1")
    assert (found.fresh, found.version) == (True, "2")


def resume(demo: DemoWorld, gate: Gate, run: world.TeamRun, effects: list[dict[str, Any]]) -> tuple[str, str]:
    """Resume a branch from the last point before any effect, with the edited brief."""
    checkpoints = gate.of(run.run, "checkpoint")
    fork = next(each for each in checkpoints if each["checkpoint"] == run.before_effects)
    done = {each["operation_key"]: each for each in effects[1:4]}
    operations = {
        key: {"do": "skip" if each["tool"] == "send_mail" else "reuse", "payload": each["payload"]}
        for key, each in done.items()
    }
    bound, sealed = gate.edit([(run.brief, EDITED)])
    envelope = gate.permit(checkpoint=fork, operations=operations, edits=bound)
    gate.edits[claims_of(envelope)["permit"]] = sealed
    recorder = Recorder.open(
        demo.recorder_home,
        server=gate.url,
        token="secret-token",
        workflow=world.WORKFLOW,
        version=world.WORKFLOW_VERSION,
        targets=demo.recorder_targets,
    )
    graph = team.build(recorder, demo)
    word = branching.resume(recorder, graph, envelope)
    assert recorder.flush(60)
    recorder.close()
    graph.checkpointer.conn.close()
    return claims_of(envelope)["branch"], word


def test_its_declaration_can_be_published_and_its_contract_holds_together() -> None:
    declared = world.declaration()
    assert problem_of(declared) is None
    check_contract(read_contract(Fields(declared["contract"])), "contract")
    assert declared["state_keys"]["workspace"]["acknowledgeable"] is False
    targets = {rule["target"] for rule in declared["state_keys"].values()}
    targets |= {rule["target"] for rule in declared["destinations"].values()}
    targets |= {declared["outcome"]["target"]}
    assert targets == set(server_targets(DemoWorld(Path("/x"), 1, "python")))


def test_every_required_key_can_be_measured_at_once(demo: DemoWorld) -> None:
    moment = Moment(None, None, world.datetime.now(world.UTC))
    found = {
        name: find("probes", rule["probe"]).measure(place(demo, rule["target"]), moment)
        for name, rule in world.declaration()["state_keys"].items()
        if name != "agent_memory"
    }
    assert {name: each.problem for name, each in found.items() if each.problem} == {}
    facts = {name: dict(each.facts) for name, each in found.items()}
    # Each tool's class by its annotations; where in the number depends on the workspace's key.
    assert facts["tool_registry"].pop("tool_classes") > 0
    assert facts == {
        "workspace": {"changed_files": 0, "operation": "none", "stashes": 0, "edits": "none"},
        "tool_registry": {"tools": 5, "server_version": "1.0.0"},
        "browser": {"session": "signed_in"},
        "approval_queue": {"pending": 1, "resolved": 1},
    }
    assert "approvals" not in json.loads(demo.recorder_targets.read_text())


def test_everything_lies_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    made = world.lay_out(tmp_path / "demo", 1, "python")
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]
    assert DemoWorld.load(made.folder) == made
    program = world.recorder_program(made, "http://127.0.0.1:2")
    assert program.env == {"BRANCHGATE_DEMO_FOLDER": str(made.folder)}


@pytest.mark.parametrize(
    ("brief", "section"),
    [
        ('publish the draft in the section "front-page".', "front-page"),
        ("publish it in the reports section", "reports"),
        ('the section is "reports", not "front-page"', "reports"),
        ('use section "notices"', "notices"),
        ("just do it", "front-page"),
    ],
)
def test_its_script_reads_the_section_out_of_the_brief(brief: str, section: str) -> None:
    messages = [SystemMessage(PROMPTS["publisher"]), HumanMessage("x"), AIMessage(brief, name="orchestrator")]
    seen = Seen(messages)
    assert (seen.agent, seen.section) == ("publisher", section)


def test_its_script_says_the_same_to_the_same_messages() -> None:
    model = ScriptedModel().bind_tools([])
    messages = [SystemMessage(PROMPTS["orchestrator"]), HumanMessage("x")]
    first, second = model.invoke(messages), model.invoke(messages)
    assert first.content == second.content
    assert MARKER in first.content
