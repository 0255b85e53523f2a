"""A branch from fork to receipt, through the commands alone."""

import json

import pytest

from branches.commands.admit import grant_role
from branches.commands.ask_destination import ask_destination
from branches.commands.check_outcome import check_outcome, offer_outcome
from branches.commands.decide import decide
from branches.commands.edit_content import edit_message
from branches.commands.fork_branch import fork_branch
from branches.commands.issue_permit import issue_permit
from branches.commands.measure_state import measure_state
from branches.commands.redeem_permit import redeem_permit
from branches.commands.refusal import Refused
from branches.commands.request_approval import request_approval, withdraw_request
from branches.evidence import ids
from branches.models import ApprovalRequest, Role, Run, SealedEdit
from branches.ports import Answer, Check
from branches.queries.branch_facts import branch_view
from branches.queries.branch_page import page_now
from branches.queries.receipts import verify_run
from tests.builders import World, checkpoint, closed, effect, failed_run, run_started, stopped
from tests.plugins import FakeWorld
from tests.words import judge, reconcile


def status(branch: Run) -> str:
    return str(branch_view(branch).verdict.status)


def fork(world: World, run: Run) -> Run:
    return fork_branch(
        person=world.ada,
        parent=run,
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis="the brief lacks a section",
    )


def settle(world: World, branch: Run, outside: FakeWorld) -> None:
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    for key in ("agent_memory", "browser"):
        assert measure_state(branch=branch, key=key) == "matched"
    for name in ("ticket", "mail"):
        ask_destination(branch=branch, operation_key=world.operation(name))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("ticket"))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("mail"), decision="skip")


def approve(world: World, branch: Run) -> ApprovalRequest:
    request = request_approval(person=world.ada, branch=branch)
    decide(
        person=world.grace,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )
    return request


def start(world: World, branch: Run) -> str:
    permit = issue_permit(person=world.ada, branch=branch)
    attempt = ids.mint("att")
    redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    report = world.ingest(
        world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": attempt}),
    )
    assert not report.refused, report.refused
    return attempt


def test_it_takes_a_branch_from_restore_uncertain_to_verified(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    seen = [status(branch)]
    measure_state(branch=branch, key="agent_memory")
    measure_state(branch=branch, key="browser")
    seen.append(status(branch))
    settle(world, branch, outside)
    seen.append(status(branch))
    approve(world, branch)
    seen.append(status(branch))
    permit = issue_permit(person=world.ada, branch=branch)
    attempt = ids.mint("att")
    redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    seen.append(status(branch))
    world.ingest(world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": attempt}))
    seen.append(status(branch))
    world.ingest(stopped(world, branch.uid), closed(world, branch.uid))
    check_outcome(run=branch)
    seen.append(status(branch))
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=branch)
    seen.append(status(branch))
    assert seen == [
        "restore_uncertain",
        "effects_unreconciled",
        "needs_approval",
        "ready_to_resume",
        "resuming",
        "awaiting_outcome",
        "false_success",
        "verified",
    ]
    assert verify_run(run).ok
    assert verify_run(branch).ok


def test_it_refuses_a_second_redemption(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    attempt = ids.mint("att")
    first = redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    assert redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt) == first
    with pytest.raises(Refused) as refused:
        redeem_permit(recorder=world.recorder, permit=permit, attempt=ids.mint("att"))
    assert refused.value.rule == "already_redeemed"


def test_it_lets_nobody_approve_their_own_work(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    request = request_approval(person=world.ada, branch=branch)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    with pytest.raises(Refused) as refused:
        decide(
            person=world.ada,
            request=request,
            word="approved",
            reason="reviewed_delta",
            digest=request.subject_digest,
        )
    assert refused.value.rule == "own_work:forked"


def test_it_supersedes_an_approval_when_the_branch_changes(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    request = approve(world, branch)
    assert status(branch) == "ready_to_resume"
    edit_message(
        person=world.ada,
        branch=branch,
        target=world.hmac("message", "brief"),
        text="CONTENT-MARKER-7f3a publish it in the reports section",
        edit_class="add_detail",
    )
    view = branch_view(branch)
    assert view.verdict.status == "needs_approval"
    assert view.verdict.reasons == ("superseded",)
    with pytest.raises(Refused) as refused:
        decide(
            person=world.grace,
            request=request,
            word="approved",
            reason="reviewed_delta",
            digest=request.subject_digest,
        )
    assert refused.value.rule == "digest_changed"
    assert [change.field for change in refused.value.difference] == [
        "edits.1.edit",
        "edits.1.edit_class",
        "edits.1.state_key",
        "edits.1.target",
    ]


def test_the_text_of_an_edit_lies_sealed_and_only_until_the_branch_has_started(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    for text in ("first try", "publish it in the reports section"):
        edit_message(
            person=world.ada,
            branch=branch,
            target=world.hmac("message", "brief"),
            text=text,
            edit_class="add_detail",
        )
    sealed = SealedEdit.objects.get(edit__branch=branch)
    assert json.loads(world.box.open(bytes(sealed.ciphertext))) == {"text": text}
    assert sealed.edit.digest == world.hmac("edit", text)
    approve(world, branch)
    start(world, branch)
    assert not SealedEdit.objects.exists()
    assert branch_view(branch).edits[-1].digest == sealed.edit.digest


def test_asking_again_and_hearing_the_same_supersedes_nothing(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    assert measure_state(branch=branch, key="browser") == "matched"
    assert status(branch) == "ready_to_resume"


def test_a_siblings_effect_becomes_this_branchs_concern(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    first, second = fork(world, run), fork(world, run)
    for branch in (first, second):
        settle(world, branch, outside)
    approve(world, second)
    approve(world, first)
    start(world, first)
    assert status(second) == "effects_unreconciled"  # the sibling runs: its ledger is not complete yet
    world.ingest(*effect(world, first.uid, "other ticket", "create_ticket", "c1"))
    lines = branch_view(second).effects
    assert [line.operation_key for line in lines if line.blocks] == [world.operation("other ticket")]


def test_an_older_artifact_is_no_outcome(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid))
    outside.check = Check.PASSED
    check_outcome(run=branch)
    view = branch_view(branch)
    assert (view.verdict.status, view.verdict.reasons) == ("false_success", ("not_fresh",))
    with pytest.raises(Refused) as refused:
        offer_outcome(person=world.ada, branch=branch, version="7")
    assert refused.value.rule == "not_fresh"


def test_an_irreversible_effect_cannot_be_waved_through(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    outside.answers = {"mail": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=world.operation("mail"))
    with pytest.raises(Refused) as refused:
        reconcile(person=world.ada, branch=branch, operation_key=world.operation("mail"))
    assert refused.value.rule == "required_if_irreversible"


def test_silence_from_a_destination_settles_nothing(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    assert ask_destination(branch=branch, operation_key=world.operation("ticket")) == "unknown"
    with pytest.raises(Refused) as refused:
        reconcile(person=world.ada, branch=branch, operation_key=world.operation("ticket"))
    assert refused.value.rule == "no_answer_supports_it"


def test_what_a_sibling_does_after_the_resume_can_still_be_settled(world: World, outside: FakeWorld) -> None:
    run = failed_run(world)
    first, second = fork(world, run), fork(world, run)
    for branch in (first, second):
        settle(world, branch, outside)
        approve(world, branch)
    start(world, first)
    world.ingest(stopped(world, first.uid), closed(world, first.uid))
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=first)
    assert status(first) == "verified"
    approve(world, second)
    start(world, second)
    late = world.operation("late ticket")
    world.ingest(*effect(world, second.uid, "late ticket", "create_ticket", "c1"))
    world.ingest(stopped(world, second.uid), closed(world, second.uid))
    assert branch_view(first).verdict.reasons == (f"pending:{late}",)
    with pytest.raises(Refused) as refused:
        ask_destination(branch=first, operation_key=world.operation("ticket"))
    assert refused.value.rule == "sealed"
    ask_destination(branch=first, operation_key=late)
    reconcile(person=world.ada, branch=first, operation_key=late)
    assert status(first) == "verified"


def test_what_no_answer_settles_is_judged_by_a_named_person(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    ticket = world.operation("ticket")
    with pytest.raises(Refused) as refused:
        judge(person=world.ada, branch=branch, operation_key=ticket, judgement="mine", reason="told_by_owner")
    assert refused.value.rule == "ask_the_destination"
    outside.answers = {"tickets": Answer.CHANGED}
    ask_destination(branch=branch, operation_key=ticket)
    judge(
        person=world.ada,
        branch=branch,
        operation_key=ticket,
        judgement="compensated",
        reason="undone_by_hand",
    )
    line = next(line for line in branch_view(branch).effects if line.operation_key == ticket)
    assert (line.status, line.basis, line.blocks) == ("reverted", "compensated", False)


def test_a_configuration_that_nobody_knows_is_not_pinned(world: World, outside: FakeWorld) -> None:
    uid = ids.mint("run")
    started = run_started(world, uid)
    started["body"]["configuration"]["agents"][0]["prompt"] = None
    world.ingest(started, checkpoint(world, uid, "c1"), stopped(world, uid), closed(world, uid))
    branch = fork(world, Run.objects.get(uid=uid))
    gate = branch_view(branch).verdict.gates[4]
    assert (gate.passed, gate.reasons) == (False, ("unpinned",))


def test_whoever_asked_for_a_branch_may_never_approve_it(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    for role in (Role.ENGINEER, Role.APPROVER):
        grant_role(person=world.linus, workspace=world.workspace, role=role)
    first = request_approval(person=world.linus, branch=branch)
    withdraw_request(person=world.linus, request=first)
    second = request_approval(person=world.ada, branch=branch)
    with pytest.raises(Refused) as refused:
        decide(
            person=world.linus,
            request=second,
            word="approved",
            reason="reviewed_delta",
            digest=second.subject_digest,
        )
    assert refused.value.rule == "own_work:requested"


def test_the_page_says_what_is_left_to_do_once_the_destinations_have_answered(
    world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.ABSENT}
    ask_destination(branch=branch, operation_key=world.operation("ticket"))
    page = page_now(branch)
    assert page.next.sentence == "Ask the destinations what really happened"
    assert "1 pending until the destination answers, 1 whose answer" in page.gates[2].sentence
    ask_destination(branch=branch, operation_key=world.operation("mail"))
    page = page_now(branch)
    assert page.next.sentence == "Accept what the destinations answered"
    assert page.gates[2].sentence == "2 whose answer waits to be accepted."
