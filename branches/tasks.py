"""Celery tasks: ids in, one command out."""

from celery import shared_task

from branches.commands.expire_requests import expire_requests
from branches.commands.run_job import run_job, sweep_jobs
from branches.commands.sweep_outcomes import sweep_outcomes
from branches.commands.watch_audits import reevaluate_audits


@shared_task(name="branches.tasks.do_job", ignore_result=True)
def do_job(uid: str) -> None:
    """Do one job; a second delivery finds it claimed."""
    run_job(uid=uid)


@shared_task(name="branches.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """Find what a lost message forgot, outcomes that are due, and audits that the clock moves."""
    for uid in sweep_jobs():
        run_job(uid=uid)
    sweep_outcomes()
    expire_requests()
    reevaluate_audits()
