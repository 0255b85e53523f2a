"""Many processes at one family, one batch, one vote: nothing is lost, doubled or half-done."""

import pytest

from tests.hostile.arena import Arena


def test_two_forks_at_once_get_numbers_of_their_own(ring: Arena) -> None:
    found = ring.run("forks_at_once", "20")
    assert sorted(map(int, found["numbers"])) == list(range(1, 21))
    assert found["broken"] == []


def test_a_batch_that_many_send_is_stored_once_and_refused_to_nobody(ring: Arena) -> None:
    round_, last = ring.run("one_batch_from_many", "1", "12")
    assert round_["first"] == {"6+0-0": 1, "0+6-0": 11}
    assert round_["later"] == {"40+0-0": 1, "0+40-0": 11}
    assert (round_["whole"], round_["stored"]) == (True, 46)
    assert last == {"broken": []}


def test_runs_that_many_begin_in_other_orders_are_begun_once(ring: Arena) -> None:
    found = ring.run("several_new_runs", "16")
    assert found["words"] == {"5+0-0": 1, "1+4-0": 15}
    assert (found["rows"], found["broken"]) == (4, [])


def test_a_family_in_motion_stays_whole(ring: Arena) -> None:
    found = ring.run("a_family_in_motion", "20")
    words = found["words"]
    assert not [word for word in words if word.startswith("error")]
    assert (words["20+0-0"], words["True"], words["edited"]) == (5, 5, 5)
    assert (found["numbers"], found["edits"], found["word"]) == (True, 5, "superseded")
    assert found["ends"] == ["superseded"]
    assert found["broken"] == []


def test_a_request_is_decided_once(ring: Arena) -> None:
    found = ring.run("votes_at_once", "12")
    assert found["rows"] == 1
    assert found["words"].pop("refused:already_decided") == 11
    assert list(found["words"].values()) == [1]


def test_what_many_ask_for_is_made_once(ring: Arena) -> None:
    found = ring.run("asked_at_once", "6")
    assert found["words"] == {"asked": 6, "2.0.0": 6, "paired": 6}
    assert (found["jobs"], found["workflows"], found["recorders"]) == (1, 1, 1)


def test_a_job_is_done_once_however_often_it_is_delivered(ring: Arena) -> None:
    found = ring.run("one_job_delivered", "12")
    assert found == {"measured": 1, "state": "done"}


@pytest.mark.parametrize("act", ["edit", "redeem", "fork", "ingest"])
def test_a_process_killed_inside_a_command_leaves_nothing_behind(ring: Arena, act: str) -> None:
    found = ring.run("killed_inside", act)
    assert found["points"] >= 1
    assert found["signals"] == [9] * found["points"]
    assert found["touched"] == []
    assert (found["again"], found["chains"]) == (True, True)
