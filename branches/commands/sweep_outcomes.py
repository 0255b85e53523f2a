"""Asks for the outcome of resumed branches that have stopped and are not settled yet."""

from datetime import datetime, timedelta

from branches.commands.ask_for_job import ask_for_job
from branches.evidence.kinds.product import PERSON_VERIFIER
from branches.models import JobKind, Receipt, Redemption, Run
from branches.queries.chains import latest
from branches.queries.clock import now
from branches.queries.declarations import declaration_of

WATCHED_FOR = timedelta(hours=24)
MAX_ASKS = 40


def sweep_outcomes() -> None:
    """Ask again for each young branch that claimed to be done and has no fresh passing check."""
    young = Redemption.objects.filter(at__gt=now() - WATCHED_FOR).select_related(
        "branch__workspace", "branch__workflow"
    )
    for done in young:
        if latest(done.branch_id, "stopped") is None or _is_for_a_person(done.branch):
            continue
        checked = latest(done.branch_id, "outcome_checked")
        if checked is not None and checked.body["check"] == "passed" and checked.body["fresh"]:
            continue
        asks = Receipt.objects.filter(run_id=done.branch_id, kind="outcome_checked").count()
        if asks < MAX_ASKS and _is_due(asks, checked.recorded_at if checked else None):
            ask_for_job(
                workspace=done.branch.workspace,
                kind=JobKind.CHECK_OUTCOME,
                run=done.branch,
                subject="outcome",
                asked_by=done.branch.workspace.uid,
            )


def _is_for_a_person(branch: Run) -> bool:
    declaration = declaration_of(branch)
    return declaration is not None and declaration.outcome.verifier == PERSON_VERIFIER


def _is_due(asks: int, last: datetime | None) -> bool:
    """Ask soon at first and ever more rarely: 5 s, 10 s, 20 s … up to ten minutes apart."""
    if last is None:
        return True
    return now() - last > timedelta(seconds=min(600, 5 * 2 ** max(0, asks - 1)))
