"""Decides how a handoff that does not go on is recovered: bounded, by a named person, never by itself."""

from django.db import transaction

from branches.commands.announce_route import announce_route
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.ask_for_job import ask_for_job
from branches.commands.guards import require_role, require_shown
from branches.commands.owners import require_owner
from branches.commands.refusal import Refused
from branches.models import JobKind, Person, Role, Run
from branches.queries.clock import now
from branches.queries.handoff_audits import handoffs_now
from branches.queries.recoveries import Recoveries, Recovery


def recover_handoff(
    *, person: Person, run: Run, operation: str, action: str, shown: str, owner: str = ""
) -> None:
    """Record the decision with its bounds; `shown` is the digest of the newest receipt that was displayed.

    What it allows is carried out where the agents run; only a missing verifier is asked from here. Raises
    Refused.
    """
    require_role(person, run, Role.ENGINEER)
    with transaction.atomic():
        lock_families([run.family_id])
        at = now()
        audit = next(iter(handoffs_now(run, at, only=[operation])), None)
        if audit is None:
            raise Refused(rule="unknown", field="operation")
        recoveries = Recoveries.of(run)
        require_shown(shown, recoveries.shown(audit))
        found = _allowed(recoveries.offered(audit, at), action)
        named = require_owner(run, owner) if found.needs_owner else None
        receipt = append_receipt(
            run=run,
            kind="recovery_decided",
            body={
                "operation": operation,
                "action": action,
                "attempt": found.attempt,
                "attempts": found.attempts,
                "limit_s": found.limit_s,
                "owner": named,
                "basis": shown,
            },
            actor=Actor.person(person),
            subject=operation,
        )
        if named is not None:
            announce_route(run=run, subject=operation, owner=named, receipt=receipt)
        if action == "run_verifier":
            ask_for_job(
                workspace=run.workspace,
                kind=JobKind.CHECK_OUTCOME,
                run=run,
                subject="outcome",
                asked_by=person.uid,
            )


def _allowed(offered: tuple[Recovery, ...], action: str) -> Recovery:
    found = next((each for each in offered if each.action == action), None)
    if found is None:
        raise Refused(rule="not_in_this_state", field="action")
    if found.refused is not None:
        raise Refused(rule=found.refused, field="action")
    return found
