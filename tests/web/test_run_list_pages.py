"""The run list, the branch list, search, and what they say when there is nothing."""

import pytest
from django.test import Client

from branches.commands.check_outcome import check_outcome, take_run_baseline
from branches.models import Run
from tests.builders import World, message, run_started, stopped
from tests.plugins import FakeWorld
from tests.web.cast import forked, resumed


def text_of(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200, response.status_code
    return response.content.decode()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/", "No run is recorded yet"),
        ("/?show=failed", "No recorded run stopped on a failure."),
        ("/?show=needs-me", "Nothing went wrong without a conclusion"),
        ("/branches/", "No branch is forked yet"),
        ("/outcomes/", "No run is recorded yet"),
        ("/receipts/", "No receipt is recorded yet"),
        ("/find?q=nothing", "Nothing in this workspace starts with"),
        ("/find", "Type the start of an id"),
    ],
)
def test_it_says_in_words_that_there_is_nothing(ada: Client, address: str, words: str) -> None:
    assert words in text_of(ada, address)


def test_it_lists_a_run_with_stop_and_outcome_apart(ada: Client, run: Run) -> None:
    page = text_of(ada, "/")
    assert f"/runs/{run.uid}/" in page
    assert "Says complete" in page
    assert "Claimed only" in page


def test_a_claim_that_the_destination_denies_is_a_false_success(
    ada: Client, world: World, outside: FakeWorld
) -> None:
    world.ingest(run_started(world, "run_" + "a" * 24))
    run = Run.objects.get()
    take_run_baseline(run=run)
    world.ingest(message(world, run.uid, "done"), stopped(world, run.uid))
    check_outcome(run=run)
    assert "False success" in text_of(ada, "/?show=false-success")
    assert run.uid in text_of(ada, "/?show=needs-me")
    page = text_of(ada, "/outcomes/?show=false")
    assert "does not hold it" in page
    assert "Claimed done" in page


def test_an_unknown_filter_shows_all(ada: Client, run: Run) -> None:
    assert run.uid in text_of(ada, "/?show=nonsense")
    assert run.uid in text_of(ada, "/outcomes/?show=nonsense")


def test_it_lists_branches_with_both_tracks(ada: Client, world: World, run: Run, outside: FakeWorld) -> None:
    waiting = forked(world, run)
    done = resumed(world, run, outside)
    page = text_of(ada, "/branches/")
    assert page.index(done.uid) < page.index(waiting.uid)
    assert "Sealed" in page
    assert "Restore uncertain" in page
    assert page.count("No receipt") == 1
    assert "Claimed, no receipt" in page


def test_it_pages_through_branches(
    ada: Client, world: World, run: Run, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branches.queries.branch_list.PAGE", 2)
    first, second, third = (forked(world, run) for _ in range(3))
    page = text_of(ada, "/branches/")
    assert third.uid in page
    assert first.uid not in page
    assert f"?before={second.uid}" in page
    assert first.uid in text_of(ada, f"/branches/?before={second.uid}")


def test_it_goes_straight_to_the_one_that_is_found(ada: Client, branch: Run, run: Run) -> None:
    assert ada.get("/find", {"q": run.uid})["Location"] == f"/runs/{run.uid}/"
    assert ada.get("/find", {"q": branch.uid[3:9]})["Location"] == f"/branches/{branch.uid}/"
    shortened = f"{run.uid[4:8]}…{run.uid[-2:]}"
    assert ada.get("/find", {"q": shortened})["Location"] == f"/runs/{run.uid}/"


def test_it_shows_all_that_may_be_meant(ada: Client, world: World, outside: FakeWorld, run: Run) -> None:
    first, second = forked(world, run), forked(world, run)
    page = text_of(ada, "/find?q=br_")
    assert first.uid in page
    assert second.uid in page
