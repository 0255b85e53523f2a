"""Receipts as evidence, and the configuration page."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from branches.commands.pin_configuration import change_configuration
from branches.commands.run_job import run_job
from branches.models import Job, JobState, Run
from branches.queries.api_views import exported
from tests.builders import World, message
from tests.plugins import FakeWorld
from tests.web.cast import HTMX, resumed


def page_of(client: Client, run: Run, query: str = "") -> str:
    response = client.get(f"/runs/{run.uid}/receipts/{query}")
    assert response.status_code == 200
    return response.content.decode()


def ask(client: Client, run: Run) -> Job:
    client.post(f"/runs/{run.uid}/receipts/verify/")
    return Job.objects.get(run=run, kind="verify_receipts")


def test_a_chain_nobody_checked_says_so(ada: Client, run: Run) -> None:
    assert "Not checked" in page_of(ada, run)
    assert "Not checked" in ada.get("/receipts/").content.decode()


def test_it_polls_only_while_a_check_runs(ada: Client, run: Run) -> None:
    job = ask(ada, run)
    assert 'hx-trigger="every 2s"' in page_of(ada, run)
    run_job(uid=job.uid)
    page = page_of(ada, run)
    assert "Chain intact" in page
    assert "hx-trigger" not in page
    assert "Chain intact" in ada.get("/receipts/").content.decode()


def test_htmx_gets_the_state_of_the_check_alone(ada: Client, run: Run) -> None:
    ask(ada, run)
    headers = {**HTMX, "HX-Target": "chain"}
    fragment = ada.get(f"/runs/{run.uid}/receipts/", headers=headers).content.decode()
    assert fragment.lstrip().startswith("<section")
    assert "A worker recomputes the chain" in fragment


def test_a_second_question_while_one_is_open_is_the_same(ada: Client, run: Run) -> None:
    ask(ada, run)
    ask(ada, run)
    assert Job.objects.filter(run=run, kind="verify_receipts").count() == 1


def test_receipts_that_came_later_make_a_check_stale(ada: Client, world: World, run: Run) -> None:
    run_job(uid=ask(ada, run).uid)
    world.ingest(message(world, run.uid, "late"))
    assert "Intact when checked" in page_of(ada, run)


@pytest.mark.parametrize(
    ("problem", "words"),
    [("broken_at:4", "Chain broken"), ("worker_lost", "Check did not finish")],
)
def test_it_says_how_a_check_failed(ada: Client, run: Run, problem: str, words: str) -> None:
    job = ask(ada, run)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED, problem=problem, ended_at=timezone.now() + timedelta(seconds=1)
    )
    assert words in page_of(ada, run)


def test_it_shows_where_a_chain_breaks(ada: Client, run: Run) -> None:
    job = ask(ada, run)
    Job.objects.filter(pk=job.pk).update(
        state=JobState.FAILED, problem="broken_at:4", ended_at=timezone.now()
    )
    page = page_of(ada, run)
    assert 'id="s4" class="bad" aria-current="true"' in page
    assert "breaks here" in page


def test_an_export_is_the_exact_bytes(ada: Client, run: Run) -> None:
    response = ada.get(f"/runs/{run.uid}/receipts.ndjson")
    assert b"".join(response) == b"".join(exported(run))
    assert response["Content-Disposition"] == f'attachment; filename="{run.uid}.ndjson"'


def test_a_branch_has_a_chain_of_its_own(ada: Client, branch: Run) -> None:
    page = page_of(ada, branch)
    assert "forked" in page
    assert "Receipts of branch b1" in page


def test_it_shows_changed_parts_first_and_prompts_by_hash_only(
    ada: Client, world: World, branch: Run
) -> None:
    change_configuration(
        person=world.ada, branch=branch, agent="publisher", key="prompt", value="CONTENT-MARKER-7f3a"
    )
    page = ada.get(f"/branches/{branch.uid}/configuration/").content.decode()
    assert "1 of 10 parts changed" in page
    assert page.index("publisher.prompt") < page.index("publisher.model")
    assert "scripted-1" in page
    assert "CONTENT-MARKER-7f3a" not in page
    assert "Change and pin" in page


def test_a_sealed_branch_offers_no_change(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    branch = resumed(world, run, outside)
    page = ada.get(f"/branches/{branch.uid}/configuration/").content.decode()
    assert "The branch is sealed." in page
    assert "Change and pin" not in page


def test_a_root_run_has_no_configuration_delta(ada: Client, run: Run) -> None:
    assert ada.get(f"/branches/{run.uid}/configuration/").status_code == 404
