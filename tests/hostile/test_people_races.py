"""Many processes at one invitation, one role, one chain: one gets in, and somebody stays admin."""

from tests.hostile.arena import Arena

PROCESSES = 12


def test_an_invitation_lets_one_person_in_whoever_comes(ring: Arena) -> None:
    found = ring.run("people_at_once", "accept_at_once", str(PROCESSES))
    assert found["words"] == {"accepted": 1, "refused:invitation_used": PROCESSES - 1}
    assert (found["ends"], found["came"], found["whole"]) == (1, 1, True)


def test_the_last_policy_admin_cannot_leave_however_many_do_at_once(ring: Arena) -> None:
    found = ring.run("people_at_once", "admins_at_once", "6")
    assert found["words"] == {"left": 5, "refused:last_admin": 1}
    assert found["left"] == 1


def test_agreeing_to_workflows_and_publishing_others_locks_nobody_out(ring: Arena) -> None:
    found = ring.run("people_at_once", "workflows_at_once", str(PROCESSES))
    assert found["words"] == {"agreed": PROCESSES // 2, "published": PROCESSES // 2}
    assert found["whole"]


def test_sign_ins_at_once_are_one_chain(ring: Arena) -> None:
    found = ring.run("people_at_once", "sign_ins_at_once", str(PROCESSES))
    assert found["words"] == {"signed in": PROCESSES}
    assert found["whole"]
    assert found["count"] >= 5 * PROCESSES
