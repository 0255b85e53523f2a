"""Records runs in the demo's database, as a program of its own: everything an audit can say, and a crowd.

It prints their ids; `acted` is like `team`, for tests that change it.
"""

import base64
import json
import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")
django.setup()

from branches.commands.admit import issue_token, pair_recorder  # noqa: E402
from branches.commands.publish_workflow import publish_workflow  # noqa: E402
from branches.evidence import ids  # noqa: E402
from branches.evidence.boxes import BoxKey  # noqa: E402
from branches.models import Person, Run  # noqa: E402
from tests.builders import (  # noqa: E402
    World,
    another_recorder,
    checkpoint,
    declaration,
    run_started,
    said_by,
    stopped,
)

TEAM = ("planner", "researcher", "writer", "fact-checker", "editor", "publisher", "legal")
LONG = "regional-compliance-reviewer-for-northern-markets"
CROWD = (*(f"specialist-{number:02}" for number in range(1, 39)), LONG, "coordinator")
_SHORT, _LONG = timedelta(seconds=20), timedelta(hours=2)


def made(demo_run: str) -> World:
    """Return the demo's workspace with a recorder of our own."""
    run = Run.objects.select_related("workspace", "workflow").get(uid=demo_run)
    token, secret = issue_token(workspace=run.workspace, name="audits", scopes=["ingest", "redeem", "read"])
    box = BoxKey.generate()
    recorder, _ = pair_recorder(
        token=token, name="audits", runtime="tests", box_key=base64.b64encode(box.public).decode()
    )
    people = {who: Person.objects.get(username=who) for who in ("ada", "grace", "rosa")}
    assert run.workflow is not None
    return World(
        workspace=run.workspace,
        ada=people["ada"],
        grace=people["grace"],
        rosa=people["rosa"],
        linus=people["rosa"],
        token=secret,
        recorder=recorder,
        box=box,
        workflow=run.workflow,
    )


def begun(world: World, name: str, contract: dict[str, Any]) -> str:
    declared = declaration(
        workflow=name,
        agents=contract["agents"],
        contract=contract,
        reasons=["not_mine"],
        dependencies=["sign-off"],
        owners=["desk-lead"],
        writers={"desk-checks": {"outcomes": True}},
        limits={
            **declaration()["limits"],
            # What is new stays so for as long as somebody looks at it here.
            "handoffs": {
                "acceptance_s": 3600,
                "progress_s": 3600,
                "redeliver": {"attempts": 3, "limit_s": 3600},
            },
        },
    )
    world.workflow = publish_workflow(
        workspace=world.workspace, publisher=world.workspace.uid, declaration=declared
    )
    uid = ids.mint("run")
    bare = {"agents": [], "routing": None}
    sent(
        world,
        run_started(world, uid, configuration=bare, contract_version="1"),
        checkpoint(world, uid, f"{name} c1"),
    )
    return uid


def sent(world: World, *receipts: dict[str, Any]) -> None:
    report = world.ingest(*receipts)
    assert not report.refused, report.refused


def team(world: World) -> str:
    """A run with a handoff in every column, edges of every sort, a deadlock and an approval nobody owns."""
    straight = list(pairwise(TEAM))
    uid = begun(
        world,
        "audited",
        {
            "version": "1",
            "agents": list(TEAM),
            "edges": [
                *({"from": one, "to": other, "kind": "delegate", "max": 2} for one, other in straight),
                {"from": "editor", "to": "writer", "kind": "delegate", "max": 1},
            ],
            "phases": {"publish": [f"{one}>{other}:delegate" for one, other in straight]},
        },
    )
    told = handoffs(world, uid)
    outcomes = [each for each in told if each["body"]["event"].startswith("outcome")]
    sent(world, *edges(world, uid), *(each for each in told if each not in outcomes))
    report = said_by(another_recorder(world, "desk-checks"), *outcomes)
    assert not report.refused, report.refused
    unrouted = stopped(world, uid)
    approval = {"owner": None, "deadline": None, "resume_token": None}
    unrouted["body"] |= {"stop_cause": "approval_requested", "approval": approval, "loop": "ended"}
    unrouted["body"]["loop_ref"] = world.hmac("ref", "a loop of its own")  # the stops after it are others'
    limit = stopped(world, uid, "ended")
    limit["body"] |= {"stop_cause": "step_limit", "steps": [{"tools": ["look_up"], "tokens": 40}] * 20}
    sent(world, unrouted, limit, stopped(world, uid))
    return uid


def edges(world: World, uid: str) -> list[dict[str, Any]]:
    """Allowed, too often, forbidden and of a stranger; what legal should have been sent is missing."""
    stranger = world.hmac("name", "stranger")
    pairs = [
        *[("planner", "researcher")] * 2,
        *[("researcher", "writer")] * 5,
        *[("writer", "fact-checker"), ("fact-checker", "editor"), ("editor", "publisher")],
        *[("publisher", "planner"), ("researcher", "publisher"), ("legal", stranger)],
    ]
    return [interaction(world, uid, one, other) for one, other in pairs]


def interaction(world: World, uid: str, source: str, target: str) -> dict[str, Any]:
    body = {"from": source, "to": target, "kind": "delegate", "contract_version": "1", "status": "ok"}
    return world.sent(uid, "interaction", body)


def handoffs(world: World, uid: str) -> list[dict[str, Any]]:
    """One operation for each column of the board, and two that wait for each other."""
    lives: dict[str, tuple[str, list[tuple[str, timedelta]]]] = {
        "new": ("writer", []),
        "nobody": ("editor", [("delegated", _LONG)]),
        "refused": ("legal", [("rejected", _SHORT)]),
        "going": ("researcher", [("accepted", _SHORT)]),
        "silent": ("fact-checker", [("accepted", _LONG)]),
        "odd": ("publisher", [("completed", _SHORT)]),
        "claimed": ("writer", [("accepted", _SHORT), ("completed", _SHORT)]),
        "wrong": ("writer", [("accepted", _SHORT), ("completed", _SHORT), ("outcome_failed", _SHORT)]),
        "proved": ("editor", [("accepted", _SHORT), ("completed", _SHORT), ("outcome_verified", _SHORT)]),
        "one": ("writer", [("accepted", _SHORT), ("waiting", _SHORT)]),
        "other": ("editor", [("accepted", _SHORT), ("waiting", _SHORT)]),
    }
    on = {"one": world.hmac("ref", f"{uid} other"), "other": world.hmac("ref", f"{uid} one")}
    made = []
    for name, (receiver, life) in lives.items():
        start = max((before for _, before in life), default=_SHORT)
        artifact = {"expected_artifact": world.hmac("content", name)}
        made.append(said(world, uid, name, "delegated", start, "planner", receiver=receiver, **artifact))
        for event, before in life:
            if event != "delegated":
                more = {"dependency": on[name]} if event == "waiting" else {}
                more |= {"reason": "not_mine"} if event == "rejected" else {}
                more |= artifact if event.startswith("outcome") else {}
                who = "legal" if event.startswith("outcome") else receiver
                made.append(said(world, uid, name, event, before, who, **more))
    return made


def said(
    world: World, uid: str, name: str, event: str, before: timedelta, who: str, **more: str
) -> dict[str, Any]:
    operation = {"operation": world.hmac("ref", f"{uid} {name}"), "handoff": world.hmac("ref", f"{name} 1")}
    sent = world.sent(uid, "handoff", {**operation, "event": event, **more})
    return {**sent, "actor": {"type": "agent", "name": who}, "at": (datetime.now(UTC) - before).isoformat()}


def crowd(world: World) -> str:
    """A run of forty agents: a coordinator, a chain and a star."""
    *others, coordinator = CROWD
    pairs = [*((coordinator, each) for each in others[:20]), *zip(others[:19], others[20:], strict=True)]
    pairs.append((others[-1], coordinator))
    edges = [{"from": one, "to": other, "kind": "delegate", "max": 4} for one, other in pairs]
    phases = {"publish": [f"{one}>{other}:delegate" for one, other in pairs[:3]]}
    contract = {"version": "1", "agents": [coordinator, *others], "edges": edges, "phases": phases}
    uid = begun(world, "crowd", contract)
    sent(world, *(interaction(world, uid, one, other) for one, other in pairs[3:]))
    sent(world, interaction(world, uid, others[5], others[6]))
    return uid


if __name__ == "__main__":
    here = made(os.environ["DEMO_RUN"])
    print(json.dumps({"team": team(here), "acted": team(here), "crowd": crowd(here)}))
