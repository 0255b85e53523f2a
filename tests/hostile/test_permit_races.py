"""Many processes at one permit: one redemption, and never of a branch that was changed after the grant."""

from tests.hostile.arena import Arena

BRANCHES, PROCESSES, TRIALS = 3, 50, 100


def test_it_redeems_a_permit_once_whoever_asks(ring: Arena) -> None:
    found = ring.run("redemptions", str(BRANCHES), str(PROCESSES), str(PROCESSES), timeout=600)
    assert len(found) == BRANCHES
    for branch in found:
        assert branch["words"] == {"redeemed": 1, "refused:already_redeemed": PROCESSES - 1}
        assert (branch["rows"], branch["sealed"], branch["redeemed"]) == (1, 1, 1)
        assert branch["chain"]


def test_it_never_resumes_a_branch_that_was_changed_after_the_grant(ring: Arena) -> None:
    *trials, last = ring.run("changed_while_redeemed", str(TRIALS), str(PROCESSES), timeout=1800)
    assert len(trials) == TRIALS
    assert [trial for trial in trials if trial["errors"]] == []
    assert [trial for trial in trials if trial["changed"] and trial["redeemed"]] == []
    assert [trial for trial in trials if trial["redemptions"] > 1] == []
    assert [trial for trial in trials if not trial["revoked"] and trial["changed"] == trial["redeemed"]] == []
    assert [trial for trial in trials if trial["changed"] != trial["superseded"]] == []
    assert last == {"broken": []}


def test_it_issues_one_permit_at_a_time(ring: Arena) -> None:
    found = ring.run("permits_at_once", "1", "20")
    assert found == [{"words": {"issued": 1, "refused:permit_already_issued": 19}, "rows": 1}]
