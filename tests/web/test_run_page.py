"""A run's timeline: where it opens, its window, its jumps, and that its length does not cost."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from branches.evidence import ids
from branches.models import Run
from tests.builders import World, effect, run_started
from tests.plugins import FakeWorld
from tests.web.cast import HTMX, forked, long_run, resumed


def rows_of(page: str) -> int:
    return page.count('<tr id="r')


def test_it_opens_at_the_failure(ada: Client, world: World) -> None:
    run = long_run(world, 300)
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    assert 'id="r292" class="bad here" aria-current="true"' in page
    assert rows_of(page) == 60
    assert "241 to 300 of 300" in page


def test_it_opens_at_the_stop_where_nothing_failed(ada: Client, run: Run) -> None:
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    assert 'id="r10" class=" here"' in page


def test_it_shows_both_tracks_of_a_run_and_their_age(ada: Client, run: Run) -> None:
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    assert '<span class="lab">Stop</span>' in page
    assert '<span class="lab">Outcome at destination</span>' in page
    assert "not asked" in page


def test_a_checkpoint_can_be_forked_and_a_message_read(ada: Client, world: World, run: Run) -> None:
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    checkpoint = world.checkpoint("c1").replace(":", "%3A").replace("+", "%2B")
    assert f"/runs/{run.uid}/fork/?checkpoint={checkpoint}" in page
    assert f"/runs/{run.uid}/messages/2/" in page
    assert "calls create_ticket" in page


def test_a_covered_name_of_a_tool_is_short_wherever_it_is_shown(ada: Client, world: World, run: Run) -> None:
    covered, uid = world.hmac("name", "undeclared"), ids.mint("run")
    intended, _ = effect(world, uid, "k1", "look_up", "c1")
    intended["body"].update(tool=covered, destination=None, effect_class="unknown")
    assert not world.ingest(run_started(world, uid), intended).refused
    page = ada.get(f"/runs/{uid}/").text
    assert f"calls {covered.rpartition(':')[2][:4]}…" in page
    assert covered not in page


def test_a_row_of_a_handoff_says_what_happened_to_it(ada: Client, world: World, run: Run) -> None:
    body = {"operation": world.hmac("ref", "o"), "handoff": world.hmac("ref", "h"), "event": "outcome_failed"}
    uid = ids.mint("run")
    assert not world.ingest(run_started(world, uid), world.sent(uid, "handoff", body)).refused
    assert "handoff: outcome failed" in ada.get(f"/runs/{uid}/").text


def test_it_lists_the_branches_with_their_two_tracks(
    ada: Client, world: World, run: Run, outside: FakeWorld
) -> None:
    forked(world, run)
    resumed(world, run, outside)
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    assert "b1: add detail" in page
    assert "b2: add detail" in page
    assert "Sealed" in page


def test_a_branchs_timeline_says_permission_and_outcome(ada: Client, branch: Run) -> None:
    page = ada.get(f"/runs/{branch.uid}/").content.decode()
    assert '<span class="lab">Permission to resume</span>' in page
    assert "Timeline of branch b1" in page


def test_htmx_gets_the_window_alone(ada: Client, world: World) -> None:
    run = long_run(world, 200)
    response = ada.get(f"/runs/{run.uid}/window/", {"at": "61"}, headers=HTMX)
    page = response.content.decode()
    assert page.lstrip().startswith("<section")
    assert "61 to 120 of 200" in page
    assert response["HX-Replace-Url"] == f"/runs/{run.uid}/?at=61"


def test_without_htmx_the_window_is_the_page_at_that_place(ada: Client, run: Run) -> None:
    assert ada.get(f"/runs/{run.uid}/window/?at=3")["Location"] == f"/runs/{run.uid}/?at=3"


@pytest.mark.parametrize("place", ["at=0", "at=99999999999999999999", "at=-4", "at=x", "at=3&mark=y", "at=²"])
def test_an_odd_place_still_shows_receipts(ada: Client, run: Run, place: str) -> None:
    page = ada.get(f"/runs/{run.uid}/?{place}").content.decode()
    assert rows_of(page) == 11


@pytest.mark.parametrize(
    ("mark", "after", "found"),
    [("checkpoint", 0, 3), ("checkpoint", 3, 9), ("checkpoint", 9, 3), ("effect", 0, 4), ("effect", 4, 6)],
)
def test_it_jumps_to_the_next_mark_and_round(
    ada: Client, run: Run, mark: str, after: int, found: int
) -> None:
    response = ada.get(f"/runs/{run.uid}/next/{mark}/?after={after}")
    assert response["Location"].endswith(f"mark={found}#r{found}")
    fragment = ada.get(f"/runs/{run.uid}/next/{mark}/?after={after}", headers=HTMX).content.decode()
    assert f'name="after" value="{found}"' in fragment


def test_a_jump_to_what_is_not_there_says_so(ada: Client, run: Run) -> None:
    page = ada.get(f"/runs/{run.uid}/next/failure/", follow=True).content.decode()
    assert "This run has no failure." in page
    fragment = ada.get(f"/runs/{run.uid}/next/failure/", headers=HTMX).content.decode()
    assert "This run has no failure." in fragment
    assert ada.get(f"/runs/{run.uid}/next/anything/").status_code == 404


def test_it_finds_a_failure_in_a_long_run(ada: Client, world: World) -> None:
    run = long_run(world, 6500)  # past the length at which every receipt is read for the map
    response = ada.get(f"/runs/{run.uid}/next/failure/?after=9")
    assert response["Location"].endswith("mark=6492#r6492")


def test_a_run_that_goes_on_opens_at_its_newest_receipts(ada: Client, world: World) -> None:
    world.ingest(run_started(world, "run_" + "b" * 24))
    run = Run.objects.get()
    page = ada.get(f"/runs/{run.uid}/").content.decode()
    assert "no stop recorded" in page
    assert "Running" in page
    assert "Nothing was forked from this run yet." in page


def test_a_long_run_costs_no_more_queries_and_nodes_than_a_short_one(ada: Client, world: World) -> None:
    short, long = long_run(world, 100), long_run(world, 2000)
    ada.get("/help/")
    for address in ("", "window/?at=1", "next/failure/?after=5", "map/", "receipts/?at=50"):
        seen = [_cost(ada, f"/runs/{run.uid}/{address}") for run in (short, long)]
        assert seen[0] == seen[1], address
    page = ada.get(f"/runs/{long.uid}/").content.decode()
    assert page.count("<") - page.count("</") < 1500


def _cost(client: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as queries:
        response: Any = client.get(address, headers=HTMX if "window" in address or "next" in address else {})
    assert response.status_code == 200
    return len(queries)
