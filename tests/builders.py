"""Runs, branches and people, made by the commands themselves and never by rows of their own."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from branches.commands.admit import grant_role, issue_token, make_workspace, pair_recorder
from branches.commands.ingest_receipts import IngestReport, ingest_receipts
from branches.commands.propose_change import adopt_policy
from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.evidence.boxes import BoxKey
from branches.models import Person, Receipt, Recorder, Role, Run, Workflow, Workspace
from branches.queries.policy_text import default_text
from branches.queries.secrets import workspace_key


def one_approver() -> str:
    """Return a policy by which one approver lets a branch of any class go."""
    document = yaml.safe_load(default_text())
    for name in ("C2", "C3", "C4"):
        document["classes"][name]["rules"] = [{"name": "approval", "role": "approver", "people": 1}]
    return yaml.safe_dump({**document, "policy": "one-approver", "tests": []}, sort_keys=False)


CHECKPOINTS = ("c1", "c2", "c3")


def declaration(**changes: Any) -> dict[str, Any]:
    """Return a small declaration whose plug-ins the tests replace."""
    declared: dict[str, Any] = {
        "workflow": "desk",
        "version": "1.0.0",
        "runtime": "langgraph",
        "agents": ["orchestrator", "publisher"],
        "models": ["scripted-1"],
        "kinds": ["delegate"],
        "phases": ["publish"],
        "state_keys": {
            "agent_memory": {"probe": "fake", "target": "memory"},
            "browser": {"probe": "fake", "target": "browser", "acknowledgeable": True},
        },
        "tools": {
            "create_ticket": {"destination": "tickets", "effect_class": "reversible", "key_fields": []},
            "send_mail": {"destination": "mail", "effect_class": "irreversible", "key_fields": []},
            "look_up": {"destination": None, "effect_class": "read", "key_fields": []},
        },
        "destinations": {
            "tickets": {"query": "fake", "target": "tickets"},
            "mail": {"query": "fake", "target": "mail"},
        },
        "outcome": {"expected": "report", "verifier": "fake", "target": "reports"},
        "limits": {"max_age_s": 900, "start_s": 60},
    }
    return {**declared, **changes}


@dataclass
class World:
    """A workspace with its cast, a paired recorder and a published workflow."""

    workspace: Workspace
    ada: Person
    grace: Person
    rosa: Person
    linus: Person
    token: str
    recorder: Recorder
    box: BoxKey
    workflow: Workflow
    counts: dict[str, int] = field(default_factory=dict)

    def hmac(self, domain: str, text: str) -> str:
        return workspace_key(self.workspace).digest(domain, text)

    def sent(self, run: str, kind: str, body: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """Return one receipt as a recorder sends it, numbered by its writer."""
        self.counts[run] = self.counts.get(run, 0) + 1
        return {
            "v": 1,
            "event_id": ids.mint("evt"),
            "run": run,
            "kind": kind,
            "at": "2026-11-30T09:00:00Z",
            "actor": {"type": "recorder", "id": self.recorder.uid},
            "writer_seq": self.counts[run],
            "body": dict(body),
            **changes,
        }

    def ingest(self, *receipts: Mapping[str, Any], atomic: bool = False) -> IngestReport:
        lines = [json.dumps(receipt).encode() for receipt in receipts]
        return ingest_receipts(recorder=self.recorder, lines=lines, atomic=atomic)

    def operation(self, name: str) -> str:
        return self.hmac("operation", name)

    def checkpoint(self, name: str) -> str:
        return self.hmac("checkpoint", name)

    def state(self, value: str = "as-it-was") -> str:
        return self.hmac("state", value)


def make_world(name: str = "desk", declared: dict[str, Any] | None = None) -> World:
    """Return a workspace in which Ada forks, Grace approves, Rosa reviews and Linus is a stranger."""
    workspace = make_workspace(name=name)
    people = {
        who: Person.objects.create_user(f"{who}-{name}", password="correct horse battery")
        for who in ("ada", "grace", "rosa", "linus")
    }
    grant_role(person=people["ada"], workspace=workspace, role=Role.ENGINEER)
    grant_role(person=people["grace"], workspace=workspace, role=Role.APPROVER)
    grant_role(person=people["rosa"], workspace=workspace, role=Role.REVIEWER)
    adopt_policy(workspace=workspace, text=one_approver())
    row, token = issue_token(
        workspace=workspace, name="recorder", scopes=["ingest", "redeem", "read", "outcome"]
    )
    box = BoxKey.generate()
    recorder, _ = pair_recorder(
        token=row, name="here", runtime="langgraph 1.2.24", box_key=base64.b64encode(box.public).decode()
    )
    workflow = publish_workflow(workspace=workspace, publisher=row.uid, declaration=declared or declaration())
    return World(
        workspace=workspace,
        token=token,
        recorder=recorder,
        box=box,
        workflow=workflow,
        ada=people["ada"],
        grace=people["grace"],
        rosa=people["rosa"],
        linus=people["linus"],
    )


def another_recorder(world: World, token: str) -> Recorder:
    """Return a recorder of the same workspace that paired with a token of its own, of this name."""
    row, _ = issue_token(workspace=world.workspace, name=token, scopes=["ingest"])
    box = base64.b64encode(BoxKey.generate().public).decode()
    return pair_recorder(token=row, name="there", runtime="langgraph 1.2.24", box_key=box)[0]


def said_by(recorder: Recorder, *receipts: Mapping[str, Any]) -> IngestReport:
    """Send receipts as another recorder does, numbered by itself."""
    start = Receipt.objects.filter(writer=recorder.uid).count() + 1
    lines = [
        json.dumps({**each, "writer_seq": number}).encode() for number, each in enumerate(receipts, start)
    ]
    return ingest_receipts(recorder=recorder, lines=lines)


def run_started(world: World, run: str, **changes: Any) -> dict[str, Any]:
    body = {
        "workflow": world.workflow.uid,
        "workflow_version": world.workflow.version,
        "runtime": {"name": "langgraph", "version": "1.2.24"},
        "external_ref": world.hmac("thread", run),
        "configuration": {
            "agents": [
                {
                    "agent": agent,
                    "role": world.hmac("role", agent),
                    "model": "scripted-1",
                    "prompt": world.hmac("prompt", "be brief"),
                    "tools": world.hmac("tools", agent),
                }
                for agent in declaration()["agents"]
            ],
            "routing": world.hmac("routing", "as drawn"),
        },
        "contract_version": None,
        "phase": "publish",
        "recording": "full",
        **changes,
    }
    return world.sent(run, "run_started", body)


def message(world: World, run: str, name: str, sender: str = "publisher") -> dict[str, Any]:
    body = {
        "message": world.hmac("message", name),
        "checkpoint": None,
        "sender": sender,
        "recipient": None,
        "class": "answer",
        "content": world.hmac("content", name),
        "bytes": 12,
        "tokens": None,
        "replies_to": None,
    }
    return world.sent(run, "message", body)


def checkpoint(world: World, run: str, name: str, parent: str | None = None, **state: str) -> dict[str, Any]:
    fingerprints = state or {"agent_memory": world.state(), "browser": world.state()}
    body = {
        "checkpoint": world.checkpoint(name),
        "parent_checkpoint": world.checkpoint(parent) if parent else None,
        "step": 1,
        "state": {key: {"fingerprint": value, "facts": {}} for key, value in fingerprints.items()},
        "consistent": True,
    }
    return world.sent(run, "checkpoint", body)


def effect(world: World, run: str, name: str, tool: str, at: str, **changes: Any) -> list[dict[str, Any]]:
    """Return the intent and the acknowledged answer of one tool call."""
    declared = declaration()["tools"][tool]
    intended = {
        "operation_key": world.operation(name),
        "key_strength": "declared",
        "checkpoint": world.checkpoint(at),
        "destination": declared["destination"],
        "tool": tool,
        "effect_class": declared["effect_class"],
        "payload": world.hmac("payload", name),
        **changes,
    }
    answered = {
        "operation_key": world.operation(name),
        "answer": "acknowledged",
        "destination_ref": None,
        "destination_version": None,
    }
    return [world.sent(run, "effect_intended", intended), world.sent(run, "effect_answered", answered)]


def stopped(world: World, run: str, loop: str = "claimed") -> dict[str, Any]:
    body = {
        "policy": {"version": "p1", "conditions": [{"type": "step_count", "n": 20}]},
        "stop_cause": "natural_finish",
        "steps": [{"tools": [], "tokens": None}],
        "tool_failed": False,
        "useful_progress": True,
        "approval": None,
        "loop": loop,
    }
    return world.sent(run, "stopped", body)


def closed(world: World, run: str) -> dict[str, Any]:
    """Return the writer's last word, which counts itself."""
    return world.sent(run, "recording_closed", {"count": world.counts.get(run, 0) + 1})


def failed_run(world: World) -> Run:
    """Record a run with two effects after its first checkpoint that claimed to be done."""
    uid = ids.mint("run")
    receipts = [
        run_started(world, uid),
        message(world, uid, "brief", "orchestrator"),
        checkpoint(world, uid, "c1"),
        *effect(world, uid, "ticket", "create_ticket", "c1"),
        *effect(world, uid, "mail", "send_mail", "c1"),
        message(world, uid, "done"),
        checkpoint(world, uid, "c2", "c1"),
        stopped(world, uid),
        closed(world, uid),
    ]
    report = world.ingest(*receipts)
    assert not report.refused, report.refused
    return Run.objects.get(uid=uid)
