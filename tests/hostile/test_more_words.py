"""Attacks on words, policies, attestations and audits: what nobody said, or was not shown, moves nothing."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from branches.commands.admit import issue_token, pair_recorder
from branches.commands.ask_destination import ask_destination
from branches.commands.audit_arrivals import audit_arrivals
from branches.commands.check_outcome import check_outcome
from branches.commands.import_source import importer_of
from branches.commands.ingest_receipts import ingest_receipts
from branches.commands.measure_state import measure_state
from branches.commands.plugin_words import PluginBroke
from branches.commands.reconcile_effect import attest_ledger
from branches.commands.run_job import run_job
from branches.evidence import ids
from branches.evidence.boxes import BoxKey
from branches.evidence.kinds.product import MOST_UNACCOUNTED
from branches.models import Job, JobKind, Receipt, Recorder, Run
from branches.ports import Answer, Check, DestinationAnswer, OutcomeCheck, StateMeasurement
from branches.queries.branch_facts import branch_view
from branches.queries.branch_page import page_now
from branches.queries.clock import now, stamp
from tests import plugins
from tests.branches.test_arrivals import Listing, arrival, lister  # noqa: F401 - a fixture
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import World, closed, declaration, effect, failed_run, make_world, message, run_started
from tests.plugins import FakeDestination, FakeProbe, FakeVerifier, FakeWorld
from tests.words import attest, judge, reconcile

# ruff: noqa: F811 - fixtures that are imported

PAST_ANY_DOUBT = timedelta(days=1)


def trusting(**changes: Any) -> World:
    """A world whose workflow accepts every answer that a policy may accept."""
    accept = {"answers": ["present", "absent"], "until": stamp(now() + PAST_ANY_DOUBT)}
    rules = declaration()["destinations"]
    declared = declaration(
        destinations={name: {**rule, "accept": accept} for name, rule in rules.items()}, **changes
    )
    return make_world(declared=declared)


def standing(branch: Run, key: str) -> tuple[str, str | None]:
    line = next(line for line in branch_view(branch).effects if line.operation_key == key)
    return str(line.status), None if line.decision is None else str(line.decision)


# The policy


def test_a_policy_says_nothing_where_a_person_has_spoken(db: None, outside: FakeWorld) -> None:
    world = trusting()
    branch, mail = fork(world, failed_run(world)), world.operation("mail")
    outside.answers = {"mail": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=mail)
    reconcile(person=world.ada, branch=branch, operation_key=mail, decision="skip")
    outside.answers = {"mail": Answer.ABSENT}
    ask_destination(branch=branch, operation_key=mail)
    assert standing(branch, mail) == ("pending", None)


def test_a_policy_says_nothing_after_a_judgement_either(db: None, outside: FakeWorld) -> None:
    world = trusting()
    branch, ticket = fork(world, failed_run(world)), world.operation("ticket")
    outside.answers = {"tickets": Answer.CHANGED}
    ask_destination(branch=branch, operation_key=ticket)
    judge(person=world.ada, branch=branch, operation_key=ticket, judgement="mine", reason="told_by_owner")
    outside.answers = {"tickets": Answer.ABSENT}
    ask_destination(branch=branch, operation_key=ticket)
    assert standing(branch, ticket) == ("pending", None)


def test_a_policy_accepts_nothing_of_an_unknown_class(db: None, outside: FakeWorld) -> None:
    tools = declaration()["tools"]
    tools["create_ticket"]["effect_class"] = "unknown"
    world = trusting(tools=tools)
    uid = ids.mint("run")
    sent = effect(world, uid, "ticket", "create_ticket", "c1", effect_class="unknown")
    from tests.builders import checkpoint

    world.ingest(run_started(world, uid), checkpoint(world, uid, "c1"), *sent, closed(world, uid))
    branch = fork(world, Run.objects.get(uid=uid))
    outside.answers = {"tickets": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=world.operation("ticket"))
    assert standing(branch, world.operation("ticket")) == ("pending", None)


def test_a_policy_accepts_no_key_under_which_two_things_were_sent(db: None, outside: FakeWorld) -> None:
    world = trusting()
    run, ticket = failed_run(world), world.operation("ticket")
    other = world.hmac("payload", "another")
    world.ingest(*effect(world, run.uid, "ticket", "create_ticket", "c1", payload=other))
    branch = fork(world, run)
    outside.answers = {"tickets": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=ticket)
    assert standing(branch, ticket) == ("pending", None)


def test_a_late_effect_of_a_resumed_branch_is_a_persons(db: None, outside: FakeWorld) -> None:
    world = trusting()
    run = failed_run(world)
    branch = fork(world, run)
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    for name in ("ticket", "mail"):
        ask_destination(branch=branch, operation_key=world.operation(name))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("mail"), decision="skip")
    approve(world, branch)
    start(world, branch)
    world.ingest(*effect(world, run.uid, "late", "create_ticket", "c1"))
    ask_destination(branch=branch, operation_key=world.operation("late"))
    assert f"pending:{world.operation('late')}" in branch_view(branch).verdict.gates[2].reasons


# Attestations


@pytest.fixture
def ready(world: World, lister: Listing) -> Run:
    found = fork(world, failed_run(world))
    settle(world, found, lister.outside)
    return found


def test_nobody_vouches_for_what_an_audit_found_after_the_page(
    world: World, ready: Run, lister: Listing
) -> None:
    parent = ready.fork_point.parent
    world.ingest(message(world, parent.uid, "more"))  # after the writer's last word
    (shown,) = page_now(ready).to_attest
    lister.arrived = [arrival(world, f"s{number}") for number in range(MOST_UNACCOUNTED + 3)]
    audit_arrivals(branch=ready, destination="tickets")
    attest_ledger(person=world.ada, branch=ready, run=parent, through=shown.through, reason="logs_agree")
    assert branch_view(ready).facts.effects_ledger == "unknown"


@pytest.mark.parametrize("again", [False, True], ids=["something came", "and was attested again"])
def test_an_approval_ends_with_the_attestation_it_saw(
    world: World, ready: Run, lister: Listing, again: bool
) -> None:
    parent = ready.fork_point.parent
    world.ingest(message(world, parent.uid, "more"))
    attest(person=world.ada, branch=ready, run=parent, reason="logs_agree")
    approve(world, ready)
    assert status(ready) == "ready_to_resume"
    world.ingest(message(world, parent.uid, "and more"))
    if again:
        attest(person=world.ada, branch=ready, run=parent, reason="logs_agree")
        assert "superseded" in branch_view(ready).verdict.gates[3].reasons
    assert status(ready) == ("needs_approval" if again else "effects_unreconciled")


def test_another_writer_takes_no_attestation_away(world: World, ready: Run, lister: Listing) -> None:
    parent = ready.fork_point.parent
    world.ingest(message(world, parent.uid, "more"))
    attest(person=world.ada, branch=ready, run=parent, reason="logs_agree")
    approve(world, ready)
    sent = {
        **world.sent(parent.uid, "handoff", {
            "operation": world.hmac("ref", "x"), "handoff": world.hmac("ref", "x 1"), "event": "progress",
        }),
        "writer_seq": 1,
    }  # fmt: skip
    report = ingest_receipts(recorder=stranger(world), lines=[json.dumps(sent).encode()])
    assert report.accepted == 1
    assert status(ready) == "ready_to_resume"


def stranger(world: World) -> Recorder:
    row, _ = issue_token(workspace=world.workspace, name="another", scopes=["ingest"])
    box = base64.b64encode(BoxKey.generate().public).decode()
    return pair_recorder(token=row, name="there", runtime="langgraph 1.2.24", box_key=box)[0]


# Plug-ins that answer nonsense


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        StateMeasurement("CONTENT-MARKER-7f3a"),
        StateMeasurement(None, parts={"CONTENT-MARKER": "x"}),
        StateMeasurement(None, reachable=False, problem="failed:CONTENT-MARKER-7f3a /home/x"),
    ],
    ids=["nothing", "a fingerprint", "a part", "words of its own"],
)
def test_a_probe_that_answers_nonsense_leaves_no_older_match_standing(
    world: World, ready: Run, monkeypatch: pytest.MonkeyPatch, nonsense: Any
) -> None:
    monkeypatch.setattr(FakeProbe, "measure", lambda *_: nonsense)
    with pytest.raises(PluginBroke, match=r"^failed:TypeError$"):
        measure_state(branch=ready, key="browser")
    assert "unreachable:browser" in branch_view(ready).verdict.gates[1].reasons


@pytest.mark.parametrize(
    "nonsense",
    [None, DestinationAnswer("present"), DestinationAnswer(Answer.PRESENT, version="CONTENT MARKER")],  # type: ignore[arg-type]
    ids=["nothing", "a bare word", "a version"],
)
def test_a_destination_that_answers_nonsense_is_pending(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, nonsense: Any
) -> None:
    branch, ticket = fork(world, failed_run(world)), world.operation("ticket")
    monkeypatch.setattr(FakeDestination, "ask", lambda *_: nonsense)
    with pytest.raises(PluginBroke):
        ask_destination(branch=branch, operation_key=ticket)
    assert standing(branch, ticket) == ("pending", None)


@pytest.mark.parametrize(
    "odd",
    [
        OutcomeCheck(Check.FAILED, version="CONTENT MARKER"),
        OutcomeCheck(Check.FAILED, fresh="no"),  # type: ignore[arg-type]
        OutcomeCheck(Check.PASSED, fresh=True, problem="failed:CONTENT-MARKER-7f3a"),
    ],
    ids=["a version", "a flag", "words of its own"],
)
def test_a_verifier_that_answers_nonsense_ends_what_was_verified(
    world: World, ready: Run, lister: Listing, monkeypatch: pytest.MonkeyPatch, odd: OutcomeCheck
) -> None:
    approve(world, ready)
    start(world, ready)
    lister.outside.check, lister.outside.newest = Check.PASSED, "8"
    check_outcome(run=ready)
    assert status(ready) == "verified"
    monkeypatch.setattr(FakeVerifier, "check", lambda *_: odd)
    with pytest.raises(PluginBroke):
        check_outcome(run=ready)
    assert status(ready) != "verified"


def test_a_plug_in_that_ends_the_program_ends_its_job_only(
    world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, settings: Any
) -> None:
    class MarkerLeft(Exception):
        """A name that somebody else chose."""

    branch = fork(world, failed_run(world))
    job = Job.objects.filter(run=branch, kind=JobKind.PROBE_STATE).first()
    assert job is not None
    for error, problem in ((SystemExit(3), "failed:SystemExit"), (MarkerLeft(), "failed:Exception")):
        monkeypatch.undo()
        plugins.install(monkeypatch, tmp_path, settings)
        assert measure_state(branch=branch, key=job.subject) == "matched"

        def leave(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(FakeProbe, "measure", leave)
        Job.objects.filter(pk=job.pk).update(state="queued", due_at=None)
        run_job(uid=job.uid)
        job.refresh_from_db()
        assert (job.state, job.problem) == ("failed", problem)
        assert f"unreachable:{job.subject}" in branch_view(branch).verdict.gates[1].reasons


# Imports


def test_a_run_from_the_past_gets_no_baseline(world: World, outside: FakeWorld) -> None:
    writer, uid = importer_of(world.workspace), ids.mint("run")
    for recording, jobs in (("imported", 0), ("imported_whole", 0), ("full", 1)):
        uid = ids.mint("run")
        sent = run_started(world, uid, recording=recording)
        report = ingest_receipts(recorder=writer, lines=[json.dumps(sent).encode()])
        assert report.refused == []
        assert Job.objects.filter(run__uid=uid, kind=JobKind.TAKE_BASELINE).count() == jobs
    assert not Receipt.objects.filter(run__uid=uid, body__contains="CONTENT-MARKER").exists()
