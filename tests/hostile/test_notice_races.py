"""Many workers at the same notices: each arrives once, and each request's clock starts once."""

from tests.hostile.arena import Arena

PROCESSES = 8


def test_each_notice_is_sent_once_however_many_workers_deliver(ring: Arena) -> None:
    found = ring.run("notices_at_once", "deliver_at_once", str(PROCESSES))
    assert [word for word in found["words"] if not word.isdigit()] == []
    assert sum(map(int, found["words"])) == 6
    assert found["arrived"] == [1] * 6
    assert (found["delivered"], found["clocks"]) == (6, 3)
