"""Whose word on a handoff counts: by writer, token, agent and event; and what comes of several who write."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import yaml
from django.test import Client

from branches.commands.publish_workflow import publish_workflow
from branches.commands.recover_handoff import recover_handoff
from branches.models import Recorder, Run
from branches.queries.audits import audits_now
from branches.queries.chains import links
from branches.queries.clock import now
from branches.queries.declarations import Writer, read_workflow
from branches.queries.handoff_times import limit_rows
from branches.queries.recoveries import Recoveries
from branches.queries.workflow_form import problem_of
from branches.queries.workflow_text import read_workflow_text
from branches.queries.writers import OUTCOME_EVENTS, Entitled, Voice, writers_of
from branches.rules.handoff_facts import HandoffEvent
from tests.builders import World, another_recorder, declaration, said_by
from tests.web.test_audits_page import AGENTS
from tests.web.test_recoveries import REDELIVER, begin, delegated, event, shown

WRITERS = {
    "side": Writer(frozenset({"writer"}), outcomes=False),
    "checks": Writer(frozenset(), outcomes=True),
    "both": Writer(frozenset({"writer"}), outcomes=True),
}
OWN = "rec_own"


@pytest.mark.parametrize("event_name", [str(each) for each in HandoffEvent])
@pytest.mark.parametrize("agent", ["writer", "critic", None])
@pytest.mark.parametrize(
    ("recorder", "token", "own_token"),
    [
        (recorder, token, own_token)
        for recorder, own_token in itertools.product((OWN, "rec_other"), ("loop", "both", None))
        for token in ((own_token,) if recorder == OWN else ("side", "checks", "both", "loop", None))
    ],
)
def test_who_may_say_what(
    recorder: str, token: str | None, own_token: str | None, agent: str | None, event_name: str
) -> None:
    entitled = Entitled(Voice(OWN, own_token), WRITERS)
    found = entitled.trusts(Voice(recorder, token), event_name, agent)
    if event_name in {"outcome_verified", "outcome_failed"}:
        assert found == (recorder != OWN and token in {"checks", "both"} and token != own_token)
    else:
        assert found == (recorder == OWN or (token in {"side", "both"} and agent == "writer"))


@pytest.mark.parametrize("event_name", [str(each) for each in HandoffEvent])
def test_whoever_imports_vouches_for_all_of_the_file_and_for_nothing_else(event_name: str) -> None:
    entitled = Entitled(Voice(OWN), {}, is_imported=True)
    assert entitled.trusts(Voice(OWN), event_name, "writer")
    assert not entitled.trusts(Voice("rec_other", "side"), event_name, "writer")


def test_what_was_imported_counts_with_its_outcomes_also_where_writers_are_declared(
    world: World,
) -> None:
    uid = begin(world, writers={"checks": {"outcomes": True}})
    world.ingest(*done(world, uid), outcome(world, uid))
    run = Run.objects.get(uid=uid)
    found = links([run.pk], ("handoff",))
    writers = writers_of(run, found)
    assert len(writers.untrusted(found)) == 1
    imported = replace(writers, entitled=replace(writers.entitled, is_imported=True))
    assert imported.untrusted(found) == frozenset()


@pytest.mark.parametrize("event_name", [str(each) for each in HandoffEvent])
def test_of_a_run_without_a_recorder_only_declared_writers_count(event_name: str) -> None:
    entitled = Entitled(None, WRITERS)
    assert entitled.trusts(Voice("rec_other", "both"), event_name, "writer")
    assert entitled.trusts(Voice("rec_other", "side"), event_name, "writer") == (
        event_name not in OUTCOME_EVENTS
    )
    assert not entitled.trusts(Voice("rec_other", "loop"), event_name, "writer")


def state(uid: str) -> tuple[str, tuple[str, ...]]:
    (audit,) = audits_now(Run.objects.get(uid=uid), now()).handoffs
    return str(audit.verdict.state), audit.verdict.reasons


def outcome(world: World, uid: str, what: str = "outcome_verified") -> dict[str, Any]:
    artifact = world.hmac("content", "brief")
    sent = event(world, uid, "brief", what, ago=60, expected_artifact=artifact)
    return {**sent, "actor": {"type": "agent", "name": "critic"}}


def done(world: World, uid: str) -> list[dict[str, Any]]:
    return [
        delegated(world, uid, "brief", ago=90),
        event(world, uid, "brief", "accepted", ago=80),
        event(world, uid, "brief", "completed", ago=70),
    ]


@pytest.mark.parametrize(("what", "then"), [("verified", "verified"), ("failed", "failed_outcome")])
def test_a_declared_token_says_whether_the_promised_thing_arrived(world: World, what: str, then: str) -> None:
    uid = begin(world, writers={"checks": {"outcomes": True}})
    world.ingest(*done(world, uid))
    assert not said_by(another_recorder(world, "checks"), outcome(world, uid, f"outcome_{what}")).refused
    assert state(uid)[0] == then


@pytest.mark.parametrize("declared", [{}, {"recorder": {"outcomes": True}}])
def test_a_loops_own_process_never_confirms_itself(
    ada: Client, world: World, declared: dict[str, Any]
) -> None:
    uid = begin(world, writers=declared)
    report = world.ingest(*done(world, uid), outcome(world, uid))
    assert (report.accepted, report.refused) == (4, [])
    assert state(uid) == ("uncertain", ("untrusted_writer",))
    assert ada.get(f"/runs/{uid}/audits/").text.count("by a writer not entitled to it") == 1


def test_a_token_of_the_same_name_is_the_same_process_renewed(world: World) -> None:
    uid = begin(world, writers={"recorder": {"outcomes": True}})
    world.ingest(*done(world, uid))
    said_by(another_recorder(world, "recorder"), outcome(world, uid))
    assert state(uid) == ("uncertain", ("untrusted_writer",))


@pytest.mark.parametrize(("token", "then"), [("both", "uncertain"), ("checks", "verified")])
def test_who_did_the_work_does_not_confirm_it(world: World, token: str, then: str) -> None:
    uid = begin(
        world, writers={"both": {"agents": ["writer"], "outcomes": True}, "checks": {"outcomes": True}}
    )
    handed, *work = done(world, uid)
    world.ingest(handed)
    worker = another_recorder(world, "both")
    said_by(worker, *work)
    said_by(worker if token == "both" else another_recorder(world, token), outcome(world, uid))
    assert state(uid)[0] == then


@pytest.fixture
def side(world: World) -> Recorder:
    """The receiver's own process, with a token of its own."""
    return another_recorder(world, "side")


def test_the_receivers_own_process_may_say_what_the_receiver_does(world: World, side: Recorder) -> None:
    uid = begin(world, writers={"side": {"agents": ["writer"]}})
    world.ingest(delegated(world, uid, "brief", ago=90))
    assert not said_by(side, event(world, uid, "brief", "accepted", ago=80)).refused
    assert state(uid) == ("working", ())
    for_another = {
        **event(world, uid, "brief", "progress", ago=50),
        "actor": {"type": "agent", "name": "critic"},
    }
    said_by(side, for_another)
    assert "untrusted_writer" in state(uid)[1]


@pytest.mark.parametrize(("token", "worked"), [("side", True), ("another", False)])
def test_a_recovery_worked_where_a_writer_who_is_entitled_says_so(
    world: World, token: str, worked: bool
) -> None:
    uid = begin(world, limits=REDELIVER, writers={"side": {"agents": ["writer"]}})
    run, operation = Run.objects.get(uid=uid), world.hmac("ref", "brief")
    world.ingest(delegated(world, uid, "brief", ago=900))
    recover_handoff(
        person=world.ada, run=run, operation=operation, action="redeliver", shown=shown(run, operation)
    )
    again = world.hmac("ref", "brief 2")
    world.ingest(delegated(world, uid, "brief", ago=30, handoff=again))
    said_by(another_recorder(world, token), event(world, uid, "brief", "accepted", ago=20, handoff=again))
    (audit,) = audits_now(run, now()).handoffs
    (found,) = Recoveries.of(run).decided(audit)
    assert (found.worked is not None) == worked


@pytest.mark.parametrize(("token", "worked"), [("checks", True), ("recorder", False)])
def test_an_artifact_that_was_asked_for_came_where_an_entitled_writer_says_so(
    world: World, token: str, worked: bool
) -> None:
    uid = begin(world, writers={"checks": {"outcomes": True}})
    run, operation = Run.objects.get(uid=uid), world.hmac("ref", "brief")
    world.ingest(*done(world, uid))
    recover_handoff(
        person=world.ada, run=run, operation=operation, action="ask_for_artifact", shown=shown(run, operation)
    )
    if token == "recorder":
        world.ingest(outcome(world, uid))
    else:
        said_by(another_recorder(world, token), outcome(world, uid))
    (audit,) = audits_now(run, now()).handoffs
    (found,) = Recoveries.of(run).decided(audit)
    assert (found.worked is not None) == worked


def test_two_sides_that_both_tell_of_one_handoff_make_no_second_owner(world: World, side: Recorder) -> None:
    uid = begin(world, writers={"side": {"agents": ["planner", "writer"]}})
    world.ingest(delegated(world, uid, "brief", ago=90), event(world, uid, "brief", "accepted", ago=80))
    said_by(side, delegated(world, uid, "brief", ago=91), event(world, uid, "brief", "accepted", ago=79))
    assert state(uid) == ("working", ())


def test_two_sides_that_tell_of_different_delegations_disagree(world: World, side: Recorder) -> None:
    uid = begin(world, writers={"side": {"agents": ["planner", "writer"]}})
    world.ingest(delegated(world, uid, "brief", ago=90), event(world, uid, "brief", "accepted", ago=80))
    other = delegated(world, uid, "brief", ago=91)
    other["body"]["expected_artifact"] = world.hmac("content", "another")
    said_by(side, other)
    assert state(uid) == ("uncertain", ("artifact_changed", "delegated_twice"))


def test_a_declared_writers_times_count_for_the_suggested_limits(world: World, side: Recorder) -> None:
    run = Run.objects.get(uid=begin(world, writers={"side": {"agents": ["writer"]}}))
    world.ingest(delegated(world, run.uid, "brief", ago=90))
    said_by(side, event(world, run.uid, "brief", "accepted", ago=80))
    assert limit_rows(run)[0].times == 1


@pytest.mark.parametrize(
    ("writers", "field", "rule"),
    [
        ([], "writers", "object"),
        ({"a b": {"outcomes": True}}, "", "key"),
        ({"side": {"agents": ["writer"], "more": 1}}, "writers.*", "closed"),
        ({"side": {"agents": "writer"}}, "writers.*.agents", "list:name"),
        ({"side": {"agents": ["writer", "writer"]}}, "writers.*.agents", "unique"),
        ({"side": {"agents": ["nobody"]}}, "writers.*.agents", "declared"),
        ({"side": {"outcomes": "yes"}}, "writers.*.outcomes", "type:boolean"),
        ({"side": {"agents": []}}, "writers.*", "not_empty"),
        ({f"t{number}": {"outcomes": True} for number in range(33)}, "writers", "at_most:32"),
    ],
)
def test_writers_that_do_not_hold_together_are_refused_by_field(writers: Any, field: str, rule: str) -> None:
    problem = problem_of(declaration(agents=AGENTS, writers=writers))
    assert problem is not None
    assert (problem.field, problem.rule) == (field, rule)


def test_a_declaration_in_yaml_may_name_writers(world: World) -> None:
    declared = declaration(version="7.0.0", agents=AGENTS)
    text = yaml.safe_dump(declared) + "writers:\n  side: {agents: [writer]}\n  checks: {outcomes: true}\n"
    workflow = publish_workflow(
        workspace=world.workspace, publisher=world.recorder.uid, declaration=read_workflow_text(text)
    )
    assert read_workflow(workflow).writers == {"side": WRITERS["side"], "checks": WRITERS["checks"]}
