"""Each pattern as it is used: published through the commands, its two runs recorded, told by API and page."""

from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from branches.commands.append_receipt import lock_families
from branches.commands.check_outcome import record_check
from branches.commands.publish_contract import publish_contract
from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.models import Run
from branches.ports import Check, OutcomeCheck
from branches.queries.declarations import declaration_of
from branches.queries.topology_view import TOPOLOGY_BADGES
from branches.rules.verdicts import TopologyState
from debugger import contracts
from tests.builders import World, declaration, run_started, stopped
from tests.contracts.test_templates import PATTERNS
from tests.web.cast import signed_in

VERSION = "7.0.0"


def adopt(world: World, contract: dict[str, Any]) -> None:
    """Publish a workflow with the contract's names, and the contract for it."""
    names = {
        "agents": contract["agents"],
        "kinds": sorted({edge["kind"] for edge in contract["edges"]}),
        "phases": list(contract["phases"]),
    }
    world.workflow = publish_workflow(
        workspace=world.workspace,
        publisher=world.workspace.uid,
        declaration=declaration(version=VERSION, **names),
    )
    publish_contract(workspace=world.workspace, publisher=world.ada, workflow="desk", contract=contract)


def recorded(world: World, contract: dict[str, Any], told: dict[str, Any]) -> str:
    """Record a run of a template through ingest, over and with its outcome at the destination."""
    uid, version = ids.mint("run"), contract["version"]
    bare = {"agents": [], "routing": None}
    edges = (
        {**event, end: name if name in contract["agents"] else world.hmac("name", name)}
        for event in told["events"]
        for end, name in [("to", event["to"])]
    )
    report = world.ingest(
        run_started(world, uid, configuration=bare, contract_version=version, phase=told["phase"]),
        *(world.sent(uid, "interaction", {**edge, "contract_version": version}) for edge in edges),
        stopped(world, uid),
    )
    assert not report.refused, report.refused
    run = Run.objects.get(uid=uid)
    declared = declaration_of(run)
    assert declared is not None
    with transaction.atomic():
        lock_families([run.family_id])
        record_check(run=run, declaration=declared, answer=OutcomeCheck(Check.PASSED, fresh=True))
    return uid


def told_by_api(world: World, uid: str) -> tuple[str, list[str], list[str]]:
    answer = Client().get(f"/api/v1/runs/{uid}/audits", headers={"Authorization": f"Bearer {world.token}"})
    topology = answer.json()["topology"]
    return topology["verdict"], topology["reasons"], topology["missing"]


def words(state: str) -> str:
    return TOPOLOGY_BADGES[TopologyState(state)].words


@pytest.mark.parametrize("name", PATTERNS)
def test_its_two_runs_are_told_as_it_says(world: World, name: str) -> None:
    template, contract = contracts.template(name), contracts.contract(name)
    adopt(world, contract)
    good = recorded(world, contract, template["passes"])
    bad = recorded(world, contract, template["breaks"])
    breaks = template["breaks"]
    strangers = {each: world.hmac("name", each) for each in ("agent-9",)}
    reasons = [strangers.get(each, each) for each in breaks["reasons"]]
    assert told_by_api(world, good) == ("healthy", [], [])
    assert told_by_api(world, bad) == (breaks["verdict"], reasons, breaks["missing"])
    browser = signed_in(world.ada)
    healthy, broken = (browser.get(f"/runs/{uid}/audits/").text for uid in (good, bad))
    assert words("healthy") in healthy
    assert "v-missing" not in healthy.partition('class="legend')[0]
    assert words(breaks["verdict"]) in broken
    assert "Because:" in broken
    assert all(
        f"<code>{each.replace('>', '&gt;')}</code>" in broken for each in breaks["reasons"] if ">" in each
    )
    count = len(breaks["missing"])
    assert (f"{count} missing" in broken) is bool(count)
    assert ("v-missing" in broken.partition('class="legend')[0]) is bool(count)
    quorum = template.get("beside", {}).get("quorum")
    assert ("No quorum yet" in broken) is (quorum is not None)


def test_a_run_that_names_no_stage_of_several_cannot_be_judged_and_the_page_says_so(world: World) -> None:
    contract = contracts.contract("maker_checker")
    adopt(world, contract)
    uid = recorded(world, contract, {"phase": None, "events": []})
    page = signed_in(world.ada).get(f"/runs/{uid}/audits/").text
    assert "The contract could not be judged: run.phase does not fit." in page
