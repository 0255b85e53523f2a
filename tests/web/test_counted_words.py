"""What a card says rests on the words that count, and one delegation is told apart from two."""

import base64
from datetime import UTC, datetime
from typing import Any

import pytest

from branches.commands.admit import issue_token, pair_recorder
from branches.evidence.boxes import BoxKey
from branches.models import Recorder, RecorderToken, Run
from branches.queries.audit_page import audit_page
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.handoff_audits import HandoffAudit
from branches.queries.handoff_board import Card
from tests.builders import World, another_recorder, said_by
from tests.web.test_recoveries import REDELIVER, begin, delegated, event, offered
from tests.web.test_writers import done, outcome, state

KEY = base64.b64encode(BoxKey.generate().public).decode()
SOON, LATER = "2090-01-01T00:00:00Z", "2091-01-01T00:00:00Z"


def card(uid: str) -> Card:
    (found,) = (card for column in audit_page(Run.objects.get(uid=uid), now()).board for card in column.cards)
    return found


def audit(uid: str) -> HandoffAudit:
    (found,) = audits_now(Run.objects.get(uid=uid), now()).handoffs
    return found


def to_critic(world: World, uid: str, **body: Any) -> dict[str, Any]:
    sent = delegated(world, uid, "brief", ago=30, handoff=world.hmac("ref", "brief 2"), **body)
    sent["body"]["receiver"] = "critic"
    return sent


def test_a_card_rests_on_the_words_that_count(world: World) -> None:
    uid = begin(world)
    first = delegated(world, uid, "brief", ago=90, deadline=SOON)
    ruling, another = world.hmac("ref", "ruling"), world.hmac("ref", "another")
    world.ingest(
        first,
        event(world, uid, "brief", "accepted", ago=80),
        event(world, uid, "brief", "waiting", ago=70, dependency=ruling, deadline=SOON),
    )
    wait = event(world, uid, "brief", "waiting", ago=20, dependency=another, deadline=LATER)
    said = said_by(another_recorder(world, "stranger"), to_critic(world, uid, deadline=LATER), wait)
    assert not said.refused
    found = card(uid)
    assert (found.owner, found.attempts, found.deadline) == ("writer", 1, datetime(2090, 1, 1, tzinfo=UTC))
    assert found.audit.receivers == {"writer"}
    assert (found.audit.dependency, found.audit.deadline) == (ruling, SOON)
    assert len(found.audit.events) == 5  # all of them stand on the card as evidence


def test_where_no_word_counts_all_of_them_are_shown(world: World) -> None:
    uid = begin(world)
    said_by(another_recorder(world, "stranger"), to_critic(world, uid, deadline=LATER))
    found = card(uid)
    assert (found.owner, found.attempts, found.deadline) == ("critic", 1, datetime(2091, 1, 1, tzinfo=UTC))
    assert str(found.audit.verdict.state) == "uncertain"


def test_attempts_that_do_not_count_use_none_up(world: World) -> None:
    uid = begin(world, limits=REDELIVER)
    world.ingest(delegated(world, uid, "brief", ago=900))
    assert offered(Run.objects.get(uid=uid), world.hmac("ref", "brief")) == [("redeliver", None)]
    stranger = another_recorder(world, "stranger")
    for number in (2, 3, 4):
        told = delegated(world, uid, "brief", ago=30, handoff=world.hmac("ref", f"brief {number}"))
        assert not said_by(stranger, told).refused
    assert audit(uid).attempts == 1


# One delegation or two


@pytest.fixture
def side(world: World) -> Recorder:
    return another_recorder(world, "side")


@pytest.mark.parametrize("order", ["between", "first", "last"])
def test_a_second_delegation_stays_one_whoever_else_tells_of_the_first(
    world: World, side: Recorder, order: str
) -> None:
    uid = begin(world, writers={"side": {"agents": ["planner", "writer"]}})
    first, second = (delegated(world, uid, "brief", ago=ago) for ago in (1800, 60))
    told = delegated(world, uid, "brief", ago=1804)
    match order:
        case "between":
            world.ingest(first)
            said_by(side, told)
            world.ingest(second)
        case "first":
            said_by(side, told)
            world.ingest(first, second)
        case "last":
            world.ingest(first, second)
            said_by(side, told)
    assert state(uid) == ("uncertain", ("delegated_twice",))


def test_two_sides_that_both_tell_of_two_delegations_tell_of_two(world: World, side: Recorder) -> None:
    uid = begin(world, writers={"side": {"agents": ["planner", "writer"]}})
    world.ingest(*(delegated(world, uid, "brief", ago=ago) for ago in (1800, 60)))
    before = state(uid)
    said_by(side, *(delegated(world, uid, "brief", ago=ago) for ago in (1804, 64)))
    assert state(uid) == before == ("uncertain", ("delegated_twice",))


# Under whose token


@pytest.mark.parametrize("who", ["own", "worker"])
def test_a_token_under_which_a_loop_went_on_confirms_nothing_of_its_work(
    world: World, side: Recorder, who: str
) -> None:
    uid = begin(world, writers={"side": {"agents": ["writer"]}, "checks": {"outcomes": True}})
    handed, *work = done(world, uid)
    world.ingest(handed)
    if who == "own":
        world.ingest(*work)
    else:
        said_by(side, *work)
    token, _ = issue_token(workspace=world.workspace, name="checks", scopes=["ingest"])
    went_on = world.recorder if who == "own" else side
    RecorderToken.objects.create(recorder=went_on, token=token, at=now())
    checker, _ = pair_recorder(token=token, name="new", runtime="langgraph 1.2.24", box_key=KEY)
    said_by(checker, outcome(world, uid))
    assert state(uid) == ("uncertain", ("untrusted_writer",))


def test_a_token_under_which_a_recorder_went_on_entitles_it_to_nothing(world: World) -> None:
    uid = begin(world, writers={"checks": {"outcomes": True}})
    world.ingest(*done(world, uid))
    stranger = another_recorder(world, "stranger")
    token, _ = issue_token(workspace=world.workspace, name="checks", scopes=["ingest"])
    RecorderToken.objects.create(recorder=stranger, token=token, at=now())
    said_by(stranger, outcome(world, uid))
    assert state(uid) == ("uncertain", ("untrusted_writer",))
