"""What the audits cost, and what they show, where there is very much of something."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from branches.models import Run
from branches.queries.audit_page import audit_page
from branches.queries.audits import MOST_STOPS, audits_now
from branches.queries.chains import links
from branches.queries.clock import now
from branches.queries.loops import gone_on
from tests.builders import World, message, stopped
from tests.web.test_audit_waits import at, bodied, record
from tests.web.test_audits_page import edge, uid  # noqa: F401 - a fixture
from tests.web.test_recoveries import begin, delegated, event
from tests.web.test_routing import waiting

# ruff: noqa: F811 - fixtures that are imported


def by(agent: str, sent: dict[str, Any]) -> dict[str, Any]:
    return {**sent, "actor": {"type": "agent", "name": agent}}


def asked_of_database(world: World, waits: int) -> tuple[int, int]:
    """Return how many of so many waits went on, each of an agent of its own, and the queries that took."""
    own = begin(world)
    sent = []
    for number in range(waits):
        agent = world.hmac("name", f"agent {number}")
        sent.append(at(2 * number, by(agent, waiting(world, own, None))))
        if number % 2:
            sent.append(at(2 * number + 1, by(agent, message(world, own, f"{own} {number}", agent))))
    record(world, *sent)
    found = links([Run.objects.get(uid=own).pk], ("stopped",))
    with CaptureQueriesContext(connection) as asked:
        on = gone_on(found)
    return len(on), len(asked)


def test_looking_for_what_went_on_asks_the_same_for_any_number_of_waits(world: World) -> None:
    assert asked_of_database(world, 6) == (3, 2)
    assert asked_of_database(world, 120) == (60, 2)


def test_a_receipt_that_is_near_to_no_wait_is_skipped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two waits far apart: the walk begins anew at the second instead of reading all that lies between."""
    monkeypatch.setattr("branches.queries.loops._MOST_AFTER", 3)
    own = begin(world)
    first, second = world.hmac("name", "first"), world.hmac("name", "second")
    others = [at(2, by("writer", message(world, own, f"m{n}", "writer"))) for n in range(200)]
    sent = [at(1, by(first, waiting(world, own, None))), *others]
    sent.append(at(3, by(second, waiting(world, own, None))))
    sent.append(at(4, by(second, message(world, own, "last", second))))
    record(world, *sent)
    found = links([Run.objects.get(uid=own).pk], ("stopped",))
    with CaptureQueriesContext(connection) as asked:
        on = gone_on(found)
    assert list(on) == [found[1].event_id]
    assert on[found[1].event_id].kind == "message"
    assert len(asked) == 3  # from each of the two onwards, and before the one that nothing came after


def test_of_very_many_stops_the_last_are_shown_and_those_that_wait_still(
    ada: Client, client: Client, world: World
) -> None:
    own = begin(world)
    asks = bodied(waiting(world, own, None), loop_ref=world.hmac("ref", "asks"))
    record(world, at(1, asks), *(at(2 + number, stopped(world, own)) for number in range(MOST_STOPS + 30)))
    page = audit_page(Run.objects.get(uid=own), now())
    assert (page.ends, len(page.stops)) == (MOST_STOPS + 31, MOST_STOPS + 1)
    assert [row.is_unrouted for row in page.stops] == [True, *[False] * MOST_STOPS]
    text = ada.get(f"/runs/{own}/audits/").text
    assert "131 stops, the 101 that came last or wait still are shown" in text
    told = client.get(f"/api/v1/runs/{own}/audits", headers={"Authorization": f"Bearer {world.token}"}).json()
    assert (told["ends"], len(told["stops"])) == (131, 101)
    assert len(audits_now(Run.objects.get(uid=own), now()).stops) == 131


def test_a_wait_that_is_not_shown_still_keeps_a_run_from_being_over(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branches.queries.audits.MOST_STOPS", 2)
    own = begin(world)
    waits = [bodied(waiting(world, own, None), loop_ref=world.hmac("ref", f"l{n}")) for n in range(3)]
    record(world, *(at(n, each) for n, each in enumerate(waits)), *(at(9, stopped(world, own)) for _ in "ab"))
    audits = audits_now(Run.objects.get(uid=own), now(), most=5)
    assert [each.waits for each in audits.stops] == [True, True, False, False]
    assert audits.topology is not None
    assert str(audits.topology.verdict.verdict) == "uncertain"  # over, it would be a false completion


def test_a_card_of_very_many_receipts_lists_the_newest_and_asks_no_more_for_them(
    ada: Client, world: World
) -> None:
    sizes, queries = [], []
    for number in (40, 400):
        own = begin(world)
        told = (event(world, own, "brief", "progress", ago=80) for _ in range(number))
        record(
            world,
            delegated(world, own, "brief", ago=90),
            event(world, own, "brief", "accepted", ago=85),
            *told,
        )
        with CaptureQueriesContext(connection) as asked:
            text = ada.get(f"/runs/{own}/audits/").text
        assert f"{number + 2} receipts, the newest 20" in text
        assert len(re.findall(r"progress, receipt \d+", text)) == 20
        sizes.append(len(text))
        queries.append(len(asked))
    assert queries[0] == queries[1]
    assert abs(sizes[0] - sizes[1]) < 500


def test_of_very_many_reasons_the_first_are_shown(ada: Client, world: World, uid: str) -> None:
    uses = [edge(world, uid, "planner", "writer") for _ in range(50)]
    record(world, *({**each, "body": {**each["body"], "contract_version": "2"}} for each in uses))
    text = ada.get(f"/runs/{uid}/audits/").text
    assert "Stale contract" in text
    assert re.findall(r"and (\d+) more</p>", text) == ["30"]
