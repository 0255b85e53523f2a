"""Facts that arrive late, grow old or contradict each other: nothing reads as good that is not known."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from branches.commands.admit import grant_role
from branches.commands.ask_destination import ask_destination
from branches.commands.decide import decide, revoke_authority
from branches.commands.fork_branch import fork_branch
from branches.commands.issue_permit import issue_permit
from branches.commands.measure_state import measure_state
from branches.commands.pin_configuration import change_configuration
from branches.commands.redeem_permit import redeem_permit
from branches.commands.refusal import Refused
from branches.commands.renew_lease import renew_lease
from branches.commands.request_approval import request_approval, withdraw_request
from branches.evidence import ids
from branches.models import Lease, Person, Receipt, RequestEnd, Role, Run
from branches.ports import Answer, DestinationAnswer, Question, Target
from branches.queries import clock
from branches.queries.authority import request_ends
from branches.queries.branch_facts import branch_view
from branches.queries.ledger import EffectLine
from branches.queries.receipts import verify_run
from tests.branches.test_branch_life import approve, fork, settle, start, status
from tests.builders import (
    World,
    checkpoint,
    closed,
    effect,
    failed_run,
    message,
    run_started,
    stopped,
)
from tests.plugins import FakeDestination, FakeWorld
from tests.words import acknowledge, attest, reconcile

TICKET, MAIL = "ticket", "mail"


def lines(branch: Run) -> dict[str, EffectLine]:
    return {line.operation_key: line for line in branch_view(branch).effects}


def answered(world: World, run: str, name: str, answer: str = "acknowledged") -> dict[str, Any]:
    body = {
        "operation_key": world.operation(name),
        "answer": answer,
        "destination_ref": None,
        "destination_version": None,
    }
    return world.sent(run, "effect_answered", body)


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    """A branch that only lacks its approval."""
    made = fork(world, failed_run(world))
    settle(world, made, outside)
    return made


# Effects and what is said of them


@pytest.mark.parametrize("answer", [Answer.ABSENT, Answer.CHANGED, Answer.UNKNOWN])
def test_another_answer_reopens_what_a_person_had_reconciled(
    world: World, outside: FakeWorld, branch: Run, answer: Answer
) -> None:
    assert status(branch) == "needs_approval"
    outside.answers["tickets"] = answer
    ask_destination(branch=branch, operation_key=world.operation(TICKET))
    assert lines(branch)[world.operation(TICKET)].status == "pending"
    assert status(branch) == "effects_unreconciled"


def test_the_same_answer_again_reopens_nothing(world: World, branch: Run) -> None:
    request = approve(world, branch)
    ask_destination(branch=branch, operation_key=world.operation(TICKET))
    assert status(branch) == "ready_to_resume"
    assert not RequestEnd.objects.filter(request=request).exists()


def test_another_fingerprint_under_the_same_word_reopens_too(
    world: World, branch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(_self: FakeDestination, target: Target, question: Question) -> DestinationAnswer:
        return DestinationAnswer(Answer.PRESENT, fingerprint=world.hmac("content", "somebody edited it"))

    monkeypatch.setattr(FakeDestination, "ask", ask)
    ask_destination(branch=branch, operation_key=world.operation(TICKET))
    assert status(branch) == "effects_unreconciled"
    reconcile(person=world.ada, branch=branch, operation_key=world.operation(TICKET))
    assert status(branch) == "needs_approval"


def test_changed_at_the_destination_supports_no_reconciliation(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    outside.answers = {"tickets": Answer.CHANGED}
    ask_destination(branch=branch, operation_key=world.operation(TICKET))
    line = lines(branch)[world.operation(TICKET)]
    assert (line.status, line.payload_differs) == ("pending", True)
    with pytest.raises(Refused) as refused:
        reconcile(person=world.ada, branch=branch, operation_key=world.operation(TICKET))
    assert refused.value.rule == "no_answer_supports_it"


def test_an_answer_grows_old_and_blocks_again(world: World, branch: Run, later: Any) -> None:
    approve(world, branch)
    later(timedelta(seconds=901))
    view = branch_view(branch)
    assert view.verdict.status == "restore_uncertain"
    effects = next(gate for gate in view.verdict.gates if gate.gate == "effects")
    assert set(effects.reasons) == {f"stale:{world.operation(name)}" for name in (TICKET, MAIL)}
    with pytest.raises(Refused):
        reconcile(person=world.ada, branch=branch, operation_key=world.operation(TICKET))


def test_a_call_while_the_destination_is_asked_makes_its_answer_too_old(
    world: World, branch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = branch.parent
    assert parent is not None
    before = Receipt.objects.filter(run=branch).count()

    def ask(_self: FakeDestination, target: Target, question: Question) -> DestinationAnswer:
        world.ingest(*effect(world, parent.uid, TICKET, "create_ticket", "c1"))
        return DestinationAnswer(Answer.ABSENT)

    monkeypatch.setattr(FakeDestination, "ask", ask)
    with pytest.raises(Refused) as refused:
        ask_destination(branch=branch, operation_key=world.operation(TICKET))
    assert refused.value.rule == "called_meanwhile"
    assert Receipt.objects.filter(run=branch).count() == before
    assert lines(branch)[world.operation(TICKET)].status == "pending"


def test_an_effect_that_arrives_after_the_fork_supersedes_and_blocks(world: World, branch: Run) -> None:
    request = approve(world, branch)
    parent = branch.parent
    assert parent is not None
    world.ingest(*effect(world, parent.uid, "late", "create_ticket", "c0"))
    assert RequestEnd.objects.get(request=request).word == "superseded"
    assert lines(branch)[world.operation("late")].blocks
    assert status(branch) == "effects_unreconciled"


def test_an_effect_called_before_the_checkpoint_and_answered_after_it_is_in_the_ledger(
    world: World, outside: FakeWorld
) -> None:
    uid = ids.mint("run")
    called = effect(world, uid, "early", "create_ticket", "c0")
    settled = effect(world, uid, "settled", "create_ticket", "c0")
    receipts = [run_started(world, uid), *settled, called[0], checkpoint(world, uid, "c1"), called[1]]
    assert not world.ingest(*receipts, closed(world, uid)).refused
    branch = fork(world, Run.objects.get(uid=uid))
    assert list(lines(branch)) == [world.operation("early")]


def test_a_second_branch_sees_what_its_grandparent_did_from_the_first_fork_point(
    world: World, outside: FakeWorld
) -> None:
    """The runtime wrote the checkpoint after the effects called from it: they lie after it all the same."""
    uid = ids.mint("run")
    receipts = [
        run_started(world, uid),
        message(world, uid, "brief", "orchestrator"),
        *effect(world, uid, TICKET, "create_ticket", "c1"),
        *effect(world, uid, MAIL, "send_mail", "c1"),
        checkpoint(world, uid, "c1"),
        stopped(world, uid),
        closed(world, uid),
    ]
    assert not world.ingest(*receipts).refused
    first = fork(world, Run.objects.get(uid=uid))
    settle(world, first, outside)
    approve(world, first)
    start(world, first)
    inner = checkpoint(world, first.uid, "d1")
    world.ingest(inner, *effect(world, first.uid, "own", "create_ticket", "d1"), closed(world, first.uid))
    second = fork_branch(
        person=world.ada,
        parent=first,
        checkpoint=world.checkpoint("d1"),
        reason_code="other",
        edit_class="other",
    )
    assert set(lines(second)) == {world.operation(name) for name in (TICKET, MAIL, "own")}


def test_a_cousins_effects_are_everybodys_concern(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    first, second = fork(world, run), fork(world, run)
    settle(world, first, outside)
    approve(world, first)
    start(world, first)
    world.ingest(checkpoint(world, first.uid, "d1"), closed(world, first.uid))
    child = fork_branch(
        person=world.ada,
        parent=first,
        checkpoint=world.checkpoint("d1"),
        reason_code="other",
        edit_class="other",
    )
    settle(world, child, outside)
    approve(world, child)
    start(world, child)
    world.ingest(*effect(world, child.uid, "cousin", "create_ticket", "d1"))
    assert world.operation("cousin") in lines(second)


def test_equal_checkpoint_ids_in_two_runs_do_not_mix_their_effects(world: World, outside: FakeWorld) -> None:
    """A branch may record a checkpoint under an id of its parent: a fork point is a link, not a name."""
    first = fork(world, failed_run(world))
    settle(world, first, outside)
    approve(world, first)
    start(world, first)
    early = effect(world, first.uid, "early", "create_ticket", "c1")
    world.ingest(checkpoint(world, first.uid, "c1"), *early, checkpoint(world, first.uid, "c2"))
    world.ingest(closed(world, first.uid))
    second = fork_branch(
        person=world.ada,
        parent=first,
        checkpoint=world.checkpoint("c2"),
        reason_code="other",
        edit_class="other",
    )
    # What the root did from its c1 lies after the line left it; what the branch did from its own c1 does not.
    assert set(lines(second)) == {world.operation(TICKET), world.operation(MAIL)}
    assert branch_view(second).facts.fork_point.in_parent


@pytest.mark.parametrize("again", [False, True])
def test_an_effect_known_only_after_the_redemption_takes_the_branch_back(
    world: World, branch: Run, again: bool
) -> None:
    """Also where it was known and settled, and is then called or answered once more."""
    approve(world, branch)
    start(world, branch)
    parent = branch.parent
    assert parent is not None
    assert status(branch) == "awaiting_outcome"
    late = (
        [answered(world, parent.uid, TICKET)]
        if again
        else effect(world, parent.uid, "new", "create_ticket", "c1")
    )
    world.ingest(*late)
    assert status(branch) == "effects_unreconciled"
    assert branch_view(branch).verdict.reasons == (f"pending:{world.operation(TICKET if again else 'new')}",)


def test_what_a_resumed_branch_does_itself_does_not_take_it_back(world: World, branch: Run) -> None:
    approve(world, branch)
    start(world, branch)
    world.ingest(*effect(world, branch.uid, TICKET, "create_ticket", "c1"))
    world.ingest(*effect(world, branch.uid, "more", "create_ticket", "c1"))
    assert status(branch) == "awaiting_outcome"


def test_a_persons_word_for_the_ledger_covers_nothing_that_came_after_it(
    world: World, outside: FakeWorld
) -> None:
    uid = ids.mint("run")
    world.ingest(run_started(world, uid), checkpoint(world, uid, "c1"), stopped(world, uid))
    run = Run.objects.get(uid=uid)
    branch = fork(world, run)
    assert branch_view(branch).facts.effects_ledger == "unknown"
    attest(person=world.ada, branch=branch, run=run, reason="logs_agree")
    assert branch_view(branch).facts.effects_ledger == "attested"
    world.ingest(message(world, uid, "it went on"))
    assert branch_view(branch).facts.effects_ledger == "unknown"


def test_a_redemption_supersedes_what_was_granted_to_a_sibling(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    first, second = fork(world, run), fork(world, run)
    for each in (first, second):
        settle(world, each, outside)
    request = approve(world, second)
    approve(world, first)
    start(world, first)
    assert RequestEnd.objects.get(request=request).word == "superseded"


# Authority


def test_a_grant_of_somebody_who_lost_the_role_is_no_grant(world: World, branch: Run) -> None:
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.APPROVER, held=False)
    with pytest.raises(Refused) as refused:
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    assert refused.value.rule == "not_ready:needs_approval"
    other = Person.objects.create_user("other-approver")
    grant_role(person=other, workspace=world.workspace, role=Role.APPROVER)
    request = request_approval(person=world.ada, branch=branch)
    decide(
        person=other, request=request, word="approved", reason="reviewed_delta", digest=request.subject_digest
    )
    redeem_permit(
        recorder=world.recorder, permit=issue_permit_or(permit, world, branch), attempt=ids.mint("att")
    )
    assert status(branch) == "resuming"


def issue_permit_or(permit: Any, world: World, branch: Run) -> Any:
    """Return the permit that waits where it is for exactly this, or a new one."""
    try:
        return issue_permit(person=world.ada, branch=branch)
    except Refused:
        return permit


@pytest.mark.parametrize("who", ["operator", "nobody"])
def test_an_operator_who_lost_the_role_redeems_nothing(world: World, branch: Run, who: str) -> None:
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    if who == "operator":
        grant_role(person=world.ada, workspace=world.workspace, role=Role.ENGINEER, held=False)
        with pytest.raises(Refused) as refused:
            redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
        assert refused.value.rule == "not_ready:needs_approval"
    else:
        assert (
            redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att")).branch
            == branch.uid
        )


@pytest.mark.parametrize(
    ("wait", "rule"),
    [
        (timedelta(seconds=880), None),
        (timedelta(seconds=900), "expired"),
        (timedelta(hours=1), "expired"),
        (timedelta(hours=-1), None),
    ],
)
def test_a_permit_ends_at_its_second(
    world: World, branch: Run, monkeypatch: pytest.MonkeyPatch, wait: timedelta, rule: str | None
) -> None:
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    monkeypatch.setattr(clock.timezone, "now", lambda: permit.at + wait)
    redeem = partial(redeem_permit, recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    if rule is None:
        assert redeem().branch == branch.uid
        return
    with pytest.raises(Refused) as refused:
        redeem()
    assert refused.value.rule == rule


def test_an_expired_request_and_an_expired_grant_approve_nothing(
    world: World, branch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_approval(person=world.ada, branch=branch)
    asked = {"person": world.grace, "request": request, "word": "approved", "reason": "reviewed_delta"}
    with monkeypatch.context() as clocks:
        clocks.setattr(clock.timezone, "now", lambda: request_ends(request) + timedelta(microseconds=1))
        with pytest.raises(Refused):
            decide(**asked, digest=request.subject_digest)
        assert branch_view(branch).authority.word == "expired"
    vote = decide(**asked, digest=request.subject_digest)
    lives = branch_view(branch).asked.of_class.grant_lives
    assert branch_view(branch, now=vote.at + lives).authority.word == "approved"
    assert branch_view(branch, now=vote.at + lives + timedelta(microseconds=1)).authority.word == "expired"


def test_a_veto_outlives_a_request_for_something_else(world: World, branch: Run) -> None:
    request = request_approval(person=world.ada, branch=branch)
    decide(
        person=world.grace,
        request=request,
        word="rejected",
        reason="too_risky",
        digest=request.subject_digest,
    )
    configured = branch_view(branch).pin
    assert configured is not None
    change = {"person": world.ada, "branch": branch, "agent": "publisher", "key": "prompt"}
    change_configuration(**change, value="be long")
    other = request_approval(person=world.ada, branch=branch)
    withdraw_request(person=world.ada, request=other)
    change_configuration(**change, value="be brief")
    assert branch_view(branch).pin.digest == configured.digest  # type: ignore[union-attr]
    with pytest.raises(Refused) as refused:
        request_approval(person=world.ada, branch=branch)
    assert refused.value.rule == "rejected_as_it_is"


def test_a_veto_cannot_be_walked_round_by_another_requester(world: World, branch: Run) -> None:
    request = request_approval(person=world.ada, branch=branch)
    decide(
        person=world.grace,
        request=request,
        word="rejected",
        reason="too_risky",
        digest=request.subject_digest,
    )
    grant_role(person=world.linus, workspace=world.workspace, role=Role.ENGINEER)
    with pytest.raises(Refused) as refused:
        request_approval(person=world.linus, branch=branch)
    assert refused.value.rule == "rejected_as_it_is"


@pytest.mark.parametrize("ended", [False, True])
def test_a_revocation_is_always_in_the_chain(world: World, branch: Run, ended: bool) -> None:
    request = request_approval(person=world.ada, branch=branch)
    if ended:
        withdraw_request(person=world.ada, request=request)
    revoke_authority(person=world.grace, branch=branch, reason="not_now")
    last = Receipt.objects.filter(run=branch).order_by("-seq").first()
    assert last is not None
    assert (last.kind, '"end":"revoked"' in last.body, last.writer) == (
        "request_ended",
        True,
        world.grace.uid,
    )
    assert branch_view(branch).authority.word == "revoked"
    with pytest.raises(Refused):
        request_approval(person=world.ada, branch=branch)


def test_a_revoked_branch_stops_at_its_next_step(world: World, branch: Run) -> None:
    approve(world, branch)
    attempt = start(world, branch)
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) is None
    revoke_authority(person=world.grace, branch=branch, reason="not_now")
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) == "revoked"
    assert status(branch) == "needs_approval"


def test_a_lost_lease_is_recorded_once(world: World, branch: Run) -> None:
    approve(world, branch)
    attempt = start(world, branch)
    Lease.objects.filter(branch=branch).update(renewed_at=clock.now() - timedelta(hours=1))
    words = {renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) for _ in range(3)}
    assert words == {"lease_lost"}
    assert Receipt.objects.filter(run=branch, kind="lease_lost").count() == 1


def test_a_permit_for_what_the_branch_no_longer_is_blocks_no_new_one(world: World, branch: Run) -> None:
    approve(world, branch)
    old = issue_permit(person=world.ada, branch=branch)
    change_configuration(person=world.ada, branch=branch, agent="publisher", key="prompt", value="other")
    approve(world, branch)
    new = issue_permit(person=world.ada, branch=branch)
    with pytest.raises(Refused) as refused:
        redeem_permit(recorder=world.recorder, permit=old, attempt=ids.mint("att"))
    assert refused.value.rule == "subject_changed"
    redeem_permit(recorder=world.recorder, permit=new, attempt=ids.mint("att"))
    assert status(branch) == "resuming"


# State


def test_a_new_drift_is_not_the_one_that_was_acknowledged(
    world: World, outside: FakeWorld, branch: Run
) -> None:
    outside.states["browser"] = "signed out"
    measure_state(branch=branch, key="browser")
    acknowledge(person=world.ada, branch=branch, key="browser", reason="expected_change")
    assert (status(branch), branch_view(branch).verdict.fidelity) == ("needs_approval", "partial")
    request = approve(world, branch)
    outside.states["browser"] = "signed in as somebody else"
    measure_state(branch=branch, key="browser")
    assert branch_view(branch).verdict.reasons == ("drifted:browser",)
    assert RequestEnd.objects.get(request=request).word == "superseded"
    outside.states["browser"] = None
    measure_state(branch=branch, key="browser")
    assert branch_view(branch).verdict.reasons == ("unreachable:browser",)


def test_an_imported_run_without_a_workflow_is_never_ready(world: World, outside: FakeWorld) -> None:
    uid = ids.mint("run")
    start_ = run_started(
        world, uid, workflow=None, workflow_version=None, configuration=None, recording="imported"
    )
    start_["body"]["phase"] = None
    point = checkpoint(world, uid, "c1")
    point["body"]["state"] = {}
    report = world.ingest(start_, point, closed(world, uid))
    assert not report.refused, report.refused
    branch = fork(world, Run.objects.get(uid=uid))
    view = branch_view(branch)
    assert view.verdict.status == "restore_uncertain"
    assert (view.facts.effects_ledger, view.change_class, view.facts.authority.required) == (
        "unknown",
        "C4",
        True,
    )
    with pytest.raises(Refused):
        request_approval(person=world.ada, branch=branch)
    with pytest.raises(Refused):
        issue_permit(person=world.ada, branch=branch)


# What a writer says


def test_a_refused_start_deletes_no_edit_and_asks_for_nothing(world: World, branch: Run) -> None:
    from branches.commands.edit_content import edit_message
    from branches.models import SealedEdit

    edit_message(
        person=world.ada,
        branch=branch,
        target=world.hmac("message", "brief"),
        text="another",
        edit_class="add_detail",
    )
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    said = world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": ids.mint("att")})
    assert world.ingest(said).refused[0].rule == "not_resumed"
    assert SealedEdit.objects.filter(edit__branch=branch).count() == 1
    start_after(world, branch, permit)
    assert not SealedEdit.objects.filter(edit__branch=branch).exists()


def start_after(world: World, branch: Run, permit: Any) -> None:
    attempt = ids.mint("att")
    redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    wrong = world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": ids.mint("att")})
    assert world.ingest(wrong).refused[0].rule == "not_redeemed"
    report = world.ingest(world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": attempt}))
    assert report.accepted == 1


def test_a_run_whose_start_was_refused_is_not_begun(world: World) -> None:
    uid = ids.mint("run")
    bad = run_started(world, uid)
    bad["body"]["phase"] = "undeclared"
    report = world.ingest(bad, message(world, uid, "a"))
    assert [(line.line, line.field, line.rule) for line in report.refused] == [
        (1, "body.phase", "declared"),
        (2, "run", "unknown"),
    ]
    assert not Run.objects.filter(uid=uid).exists()
    assert world.ingest(run_started(world, uid)).accepted == 1


def test_the_longest_subject_fits_and_holds(world: World, branch: Run) -> None:
    """The key of a repeated operation carries its branch's id behind the digest."""
    approve(world, branch)
    start(world, branch)
    repeat = effect(world, branch.uid, MAIL, "send_mail", "c1")
    for receipt in repeat:
        receipt["body"]["operation_key"] += f"+{branch.uid}"
    assert world.ingest(*repeat).accepted == 2
    assert verify_run(branch).ok


@pytest.mark.parametrize(
    "at",
    [
        "0000-01-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
    ],
)
def test_a_moment_that_is_none_is_refused(world: World, at: str) -> None:
    uid = ids.mint("run")
    report = world.ingest(run_started(world, uid), {**message(world, uid, "a"), "at": at})
    assert [(line.field, line.rule) for line in report.refused] == [("at", "pattern:timestamp")]
