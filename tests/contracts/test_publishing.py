"""Contracts are published in versions; a run is frozen with one at its start and never adopts another."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from branches.commands.publish_contract import publish_contract
from branches.commands.publish_workflow import publish_workflow
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import Contract, Person, Run, Workflow
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.contracts import contract_of, quorums_for
from debugger import contracts as templates
from tests.builders import (
    World,
    checkpoint,
    closed,
    declaration,
    effect,
    make_world,
    message,
    run_started,
    stopped,
)
from tests.plugins import FakeWorld
from tests.web.cast import forked, resumed

MARKER = "CONTENT-MARKER-7f3a"
AGENTS = ["orchestrator", "publisher"]
OUT = {"from": "orchestrator", "to": "publisher", "kind": "delegate"}
BACK = {"from": "publisher", "to": "orchestrator", "kind": "delegate"}


def contract(version: str = "2", *edges: dict[str, Any], **changes: Any) -> dict[str, Any]:
    chosen = list(edges or (OUT,))
    keys = [f"{edge['from']}>{edge['to']}:{edge['kind']}" for edge in chosen]
    return {"version": version, "agents": AGENTS, "edges": chosen, "phases": {"publish": keys}, **changes}


def publish(world: World, declared: dict[str, Any] | None = None, **changes: Any) -> Contract:
    given = {
        "workspace": world.workspace,
        "publisher": world.ada,
        "workflow": "desk",
        "contract": contract() if declared is None else declared,
        **changes,
    }
    return publish_contract(**given)


def with_own(world: World, own: dict[str, Any]) -> Workflow:
    """Publish a workflow that declares a contract itself."""
    declared = declaration(version="9.0.0", contract=own)
    return publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)


def begin(world: World, version: str | None, workflow: Workflow | None = None) -> Run:
    """Begin a run that names a contract version."""
    named = workflow or world.workflow
    uid = ids.mint("run")
    start = run_started(
        world, uid, workflow=named.uid, workflow_version=named.version, contract_version=version
    )
    report = world.ingest(start)
    assert not report.refused, report.refused
    return Run.objects.get(uid=uid)


def edge(world: World, run: Run, sent: dict[str, Any], version: str | None = None) -> dict[str, Any]:
    return world.sent(run.uid, "interaction", {**sent, "contract_version": version, "status": "ok"})


def version_of(run: Run) -> str | None:
    found = contract_of(Run.objects.get(pk=run.pk))
    return None if found is None else found["version"]


def verdict_of(run: Run) -> str | None:
    audit = audits_now(Run.objects.get(pk=run.pk), now()).topology
    return None if audit is None else str(audit.verdict.verdict)


# Publishing


def test_it_publishes_exact_bytes_once_and_says_by_whom(world: World) -> None:
    row = publish(world)
    assert (row.workflow, row.version, row.is_draft, row.publisher) == ("desk", "2", False, world.ada.uid)
    assert json.loads(row.declaration) == contract()
    assert publish(world, dict(reversed(contract().items()))) == row
    assert Contract.objects.count() == 1


def test_other_bytes_under_the_same_version_are_refused(world: World) -> None:
    publish(world)
    for change in ({"declared": contract("2", BACK)}, {"is_draft": True}):
        with pytest.raises(Refused) as refused:
            publish(world, **change)
        assert (refused.value.field, refused.value.rule) == ("contract.version", "version_already_published")
    assert publish(world, contract("3", BACK)).version == "3"


def test_a_version_may_be_a_number_and_is_not_another_one_then(world: World) -> None:
    publish(world, contract(2))  # type: ignore[arg-type]
    with pytest.raises(Refused, match="version_already_published"):
        publish(world, contract("2"))


def test_only_an_engineer_publishes_among_people(world: World) -> None:
    for person in (world.grace, world.rosa, world.linus):
        with pytest.raises(Refused, match="role:engineer"):
            publish(world, publisher=person)
    engineer_elsewhere: Person = make_world("elsewhere").ada
    with pytest.raises(Refused, match="role:engineer"):
        publish(world, publisher=engineer_elsewhere)
    assert not Contract.objects.exists()


@pytest.mark.parametrize("name", ["nobody-published-it", "", "a\0b", MARKER])
def test_a_workflow_that_nobody_published_has_no_contract(world: World, name: str) -> None:
    make_world("elsewhere", declaration(workflow="nobody-published-it"))
    with pytest.raises(Refused) as refused:
        publish(world, workflow=name)
    assert str(refused.value) == "workflow: workflow_unknown"


HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"agents": ["*", "publisher"]}, "contract.agents.0"),
    ({"edges": [{**OUT, "to": "*"}]}, "contract.edges.0.to"),
    ({"edges": [{**OUT, "kind": "*"}]}, "contract.edges.0.kind"),
    ({"phases": {"publish": ["orchestrator>*:delegate"]}}, "contract.phases.*"),
    ({"phases": {"publish": [[]]}}, "contract.phases.*"),
    ({"phases": {MARKER: ["x"]}}, "contract.phases.*"),
    ({"edges": [{**OUT, "max": 0}]}, "contract.edges.0.max"),
    ({"edges": [{**OUT, "max": True}]}, "contract.edges.0.max"),
    ({"edges": [{**OUT, "max": 1.0}]}, "contract"),
    ({"edges": [OUT, OUT]}, "contract.edges.1"),
    ({"edges": [{**OUT, MARKER: 1}]}, "contract.edges.0"),
    ({"edges": {}}, "contract.edges"),
    ({"edges": [None]}, "contract.edges.0"),
    ({"agents": "orchestrator"}, "contract.agents"),
    ({"agents": [f"a{number}" for number in range(300)], "edges": [], "phases": {}}, "contract.agents"),
    ({"agents": ["x" * 300], "edges": [], "phases": {}}, "contract"),
    ({"phases": []}, "contract.phases"),
    ({"version": ""}, "contract.version"),
    ({"version": None}, "contract.version"),
    ({"version": True}, "contract.version"),
    ({"version": "1" * 40}, "contract.version"),
    ({"quorums": {}}, "contract.quorums"),
    ({"quorums": [{"into": {}, "kind": [], "of": [[]], "at_least": 1}]}, "contract.quorums.0.of"),
    ({"quorums": [{"into": "publisher", "kind": "delegate", "of": ["orchestrator"], "at_least": 9}]},
     "contract.quorums.0.at_least"),
    ({MARKER: 1}, "contract"),
    ({"agents": ["\ud800"]}, "contract"),
    ({"agents": [f"agent-{number}-{'x' * 80}" for number in range(900)]}, "contract"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "field"), HOSTILE, ids=range(len(HOSTILE)))
def test_what_is_no_contract_is_refused_by_field_and_never_repeated(
    world: World, change: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        publish(world, {**contract(), **change})
    assert refused.value.field == field
    assert refused.value.rule
    assert MARKER not in str(refused.value)
    assert not Contract.objects.exists()


@pytest.mark.parametrize("name", templates.names())
def test_every_pattern_can_be_published_with_its_quorum(world: World, name: str) -> None:
    row = publish(world, templates.contract(name))
    quorum = templates.template(name).get("beside", {}).get("quorum")
    assert json.loads(row.declaration).get("quorums", []) == ([quorum] if quorum else [])


# What a run is frozen with


def test_a_run_is_judged_by_the_contract_that_it_names(world: World) -> None:
    quorum = {"into": "publisher", "kind": "delegate", "of": ["orchestrator"], "at_least": 1}
    publish(world, contract("2", OUT, quorums=[quorum]))
    run = begin(world, "2")
    world.ingest(edge(world, run, BACK, "2"))
    assert version_of(run) == "2"
    assert verdict_of(run) == "forbidden_edge"
    assert [each.into for each in quorums_for(run)] == ["publisher"]
    [row] = audit_page(Run.objects.get(pk=run.pk), now()).beside.quorums
    assert row.silent == ("orchestrator",)


def test_a_contract_that_is_published_later_is_never_adopted(world: World) -> None:
    own = with_own(world, contract("1", BACK))
    run = begin(world, "2", own)
    bare = begin(world, "2")
    publish(world, contract("2", OUT))
    assert (version_of(run), verdict_of(run)) == ("1", "stale_contract")
    assert (version_of(bare), verdict_of(bare)) == (None, None)
    assert version_of(begin(world, "2", own)) == "2"


def test_a_newer_version_does_not_move_a_run_either(world: World) -> None:
    publish(world, contract("2", OUT))
    run = begin(world, "2")
    world.ingest(edge(world, run, OUT, "2"))
    before = verdict_of(run)
    publish(world, contract("3", BACK))
    assert (version_of(run), verdict_of(run)) == ("2", before)


def test_a_draft_blesses_nothing(world: World) -> None:
    own = with_own(world, contract("1", BACK))
    publish(world, contract("2", OUT), is_draft=True)
    run = begin(world, "2", own)
    assert (version_of(run), verdict_of(run)) == ("1", "stale_contract")
    assert verdict_of(begin(world, "2")) is None


def test_a_version_that_nobody_published_leaves_the_workflows_own(world: World) -> None:
    own = with_own(world, contract("1", BACK))
    run = begin(world, "77", own)
    assert (version_of(run), verdict_of(run)) == ("1", "stale_contract")


def test_no_version_and_its_own_version_mean_the_workflows_own(world: World) -> None:
    own = with_own(world, contract("1", BACK))
    publish(world, contract("1", OUT))
    for version in (None, "1"):
        run = begin(world, version, own)
        assert contract_of(run) == contract("1", BACK)
        assert verdict_of(run) != "stale_contract"


def test_another_workspaces_and_another_workflows_contract_do_not_count(world: World) -> None:
    other = make_world("elsewhere")
    publish(other, contract("2", OUT))
    declared = declaration(workflow="archive")
    publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    publish(world, contract("2", OUT), workflow="archive")
    assert version_of(begin(world, "2")) is None


def test_every_version_of_a_workflow_may_name_its_contract(world: World) -> None:
    publish(world, contract("2", OUT))
    declared = declaration(version="1.1.0")
    newer = publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    assert version_of(begin(world, "2", newer)) == "2"


def test_a_branch_is_judged_by_its_roots_contract_over_its_whole_line(
    world: World, outside: FakeWorld
) -> None:
    publish(world, contract("2", OUT, BACK))
    run = begin(world, "2")
    report = world.ingest(
        message(world, run.uid, "brief", "orchestrator"),
        edge(world, run, OUT, "2"),
        checkpoint(world, run.uid, "c1"),
        *effect(world, run.uid, "ticket", "create_ticket", "c1"),
        *effect(world, run.uid, "mail", "send_mail", "c1"),
        edge(world, run, BACK, "2"),
        checkpoint(world, run.uid, "c2", "c1"),
        stopped(world, run.uid),
        closed(world, run.uid),
    )
    assert not report.refused, report.refused
    idle = forked(world, run)
    branch = resumed(world, run, outside)
    publish(world, contract("3", OUT))
    audit = audits_now(Run.objects.get(pk=branch.pk), now()).topology
    assert audit is not None
    # The way out lies before the fork; the way back that the parent took after it is not the branch's.
    assert (version_of(branch), audit.observed) == ("2", 1)
    assert audit.verdict.missing == ("publisher>orchestrator:delegate",)
    assert not world.ingest(edge(world, branch, BACK, "2")).refused
    audit = audits_now(Run.objects.get(pk=branch.pk), now()).topology
    assert audit is not None
    assert (audit.observed, audit.verdict.missing) == (2, ())
    assert not world.ingest(edge(world, branch, OUT, "2")).refused
    assert verdict_of(branch) == "ambiguous_route"
    assert (version_of(idle), verdict_of(idle)) == ("2", None)  # it has not begun


def test_a_published_contract_costs_a_runs_page_no_more_than_its_own(world: World) -> None:
    own = with_own(world, contract("1", OUT))
    publish(world, contract("2", OUT))
    costs = []
    for version in ("1", "2"):
        run = begin(world, version, own)
        world.ingest(edge(world, run, OUT, version))
        audits_now(Run.objects.select_related("workflow").get(pk=run.pk), now())
        row = Run.objects.select_related("workflow").get(pk=run.pk)
        with CaptureQueriesContext(connection) as queries:
            audits_now(row, now())
        costs.append(len(queries))
    assert costs[0] == costs[1]


# By command


def test_the_command_publishes_a_file(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contract.json"
    file.write_text(json.dumps(contract()))
    call_command("publish_contract", str(file), "--workflow", "desk", "--workspace", "desk", "--draft")
    row = Contract.objects.get()
    assert capsys.readouterr().out == f"desk 2 draft {row.uid} {row.digest}\n"
    assert (row.is_draft, row.publisher) == (True, world.workspace.uid)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('{"version": "1", "version": "2"}', "duplicate_key"),
        ("[]", "object"),
        ("{", "json"),
        ('{"version": 1.5}', "float"),
        (" " * 70_000, "max_bytes"),
        (f'{{"{MARKER}": 1}}', "closed"),
    ],
)
def test_the_command_names_what_is_wrong_with_a_file(
    world: World, tmp_path: Path, written: str, said: str
) -> None:
    file = tmp_path / "contract.json"
    file.write_text(written)
    with pytest.raises(CommandError, match=said) as error:
        call_command("publish_contract", str(file), "--workflow", "desk", "--workspace", "desk")
    assert MARKER not in str(error.value)


def test_the_command_prints_a_template_with_its_quorum(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("contract_template", "concurrent")
    printed = json.loads(capsys.readouterr().out)
    assert printed["quorums"] == [templates.template("concurrent")["beside"]["quorum"]]
