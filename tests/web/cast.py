"""What the tests of pages make: people at a browser, long runs, branches in each state."""

from allauth.account.internal.flows.login import record_authentication
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.http import HttpRequest
from django.test import Client

from branches.commands.ask_destination import ask_destination
from branches.commands.decide import decide
from branches.commands.fork_branch import fork_branch
from branches.commands.issue_permit import issue_permit
from branches.commands.measure_state import measure_state
from branches.commands.redeem_permit import redeem_permit
from branches.commands.request_approval import request_approval
from branches.evidence import ids
from branches.models import Person, Run
from branches.ports import Answer
from tests.builders import World, checkpoint, closed, effect, message, run_started, stopped
from tests.plugins import FakeWorld
from tests.words import reconcile

HTMX = {"HX-Request": "true"}


def signed_in(person: Person) -> Client:
    """Return a browser in which somebody signed in just now; they have a second factor."""
    client = Client()
    secure(person)
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    confirm(client, person)
    return client


def secure(person: Person) -> None:
    """Set a second factor up for somebody, if they have none."""
    if not Authenticator.objects.filter(user=person).exists():
        TOTP.activate(person, generate_totp_secret())


def confirm(client: Client, person: Person) -> None:
    """Write into a session what a sign-in by password leaves there."""
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, person, method="password")
    request.session.save()


def forked(world: World, run: Run, at: str = "c1") -> Run:
    return fork_branch(
        person=world.ada,
        parent=run,
        checkpoint=world.checkpoint(at),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis="the brief lacks a section",
    )


def resumed(world: World, run: Run, outside: FakeWorld) -> Run:
    """Return a branch that passed its gates, was resumed and says that it is done."""
    branch = forked(world, run)
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    for key in ("agent_memory", "browser"):
        measure_state(branch=branch, key=key)
    for name in ("ticket", "mail"):
        ask_destination(branch=branch, operation_key=world.operation(name))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("ticket"))
    reconcile(person=world.ada, branch=branch, operation_key=world.operation("mail"), decision="skip")
    request = request_approval(person=world.ada, branch=branch)
    decide(
        person=world.grace,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )
    permit = issue_permit(person=world.ada, branch=branch)
    attempt = ids.mint("att")
    redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt)
    report = world.ingest(
        world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": attempt}),
        message(world, branch.uid, f"{branch.uid}-answer"),
        stopped(world, branch.uid),
    )
    assert not report.refused, report.refused
    return branch


def long_run(world: World, receipts: int) -> Run:
    """Record a run of exactly so many receipts, with one failed call shortly before its end."""
    uid = ids.mint("run")
    lines = [run_started(world, uid), checkpoint(world, uid, f"{uid}-c1")]
    while len(lines) < receipts - 10:
        sender = ("publisher", "orchestrator")[len(lines) % 2]
        lines.append(message(world, uid, f"{uid}-m{len(lines)}", sender))
    failed = effect(world, uid, f"{uid}-ticket", "create_ticket", f"{uid}-c1")
    failed[1]["body"]["answer"] = "failed"
    lines += failed
    while len(lines) < receipts - 2:
        lines.append(message(world, uid, f"{uid}-m{len(lines)}"))
    lines += [stopped(world, uid, "ended"), closed(world, uid)]
    report = world.ingest(*lines)
    assert not report.refused, report.refused
    return Run.objects.get(uid=uid)
