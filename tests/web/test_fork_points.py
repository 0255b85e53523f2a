"""A branch begins at a checkpoint that is consistent, and not at one that only has a fact of that name."""

import pytest

from branches.models import Run
from branches.queries import fork_points
from branches.queries.audit_page import audit_page
from branches.queries.clock import now
from tests.builders import World, checkpoint
from tests.web.test_recoveries import begin, delegated


@pytest.mark.parametrize(("most", "known"), [(20, True), (2, False)])
def test_a_fact_that_is_called_consistent_makes_no_checkpoint_so(
    world: World, monkeypatch: pytest.MonkeyPatch, most: int, known: bool
) -> None:
    monkeypatch.setattr(fork_points, "_MOST", most)
    uid = begin(world, facts={"consistent": []})
    torn = []
    for number in (2, 3):
        sent = checkpoint(world, uid, f"c{number}", f"c{number - 1}")
        stood = {"fingerprint": None, "facts": {"consistent": True}}
        sent["body"] |= {"consistent": False, "state": {"browser": stood}}
        torn.append(sent)
    report = world.ingest(checkpoint(world, uid, "c1"), *torn, delegated(world, uid, "brief", ago=900))
    assert not report.refused, report.refused
    (card,) = (card for column in audit_page(Run.objects.get(uid=uid), now()).board for card in column.cards)
    assert card.fork is not None
    assert card.fork.checkpoint == (world.checkpoint("c1") if known else None)
