"""Celery tasks: ids in, one command out."""

from celery import shared_task

from branches.commands.apply_change import apply_changes
from branches.commands.decide_change import expire_changes
from branches.commands.deliver_notices import deliver_notices
from branches.commands.expire_requests import expire_requests
from branches.commands.run_job import run_job, sweep_jobs
from branches.commands.supersede_requests import supersede_by_policy
from branches.commands.sweep_notices import sweep_notices
from branches.commands.sweep_outcomes import sweep_outcomes
from branches.commands.watch_audits import reevaluate_audits


@shared_task(name="branches.tasks.do_job", ignore_result=True)
def do_job(uid: str) -> None:
    """Do one job; a second delivery finds it claimed."""
    run_job(uid=uid)


@shared_task(name="branches.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Find what a lost message forgot, what is due or over, audits that the clock moves, and notices."""
    for uid in sweep_jobs():
        run_job(uid=uid)
    sweep_outcomes()
    expire_requests()
    expire_changes()
    apply_changes()
    supersede_by_policy()
    sweep_notices()
    reevaluate_audits()
    deliver_notices()
