"""Votes against rules: one person is one vote, groups stand side by side, a scope covers what it says."""

from hypothesis import given, settings
from hypothesis import strategies as st

from branches.rules.change_class import ChangeClass
from branches.rules.quorum import Need, Rule, Standing, Voter, judge_quorum, may_fill, people_asked

C2, C3, C4, CP = ChangeClass.C2, ChangeClass.C3, ChangeClass.C4, ChangeClass.CP
TWO_GROUPS = (Rule("two_groups", "approver", 2, 2),)
OWNED = (Rule("approval", "approver", 1), Rule("owner", "destination_owner", 1))


def voter(name: str, *roles: str, groups: str = "") -> Voter:
    standings = frozenset(Standing(*role.split(":", 1)) for role in roles)
    return Voter(name, standings, frozenset(groups.split()))


def test_two_people_of_one_group_are_not_two_groups() -> None:
    both = [voter("grace", "approver", groups="safety"), voter("alan", "approver", groups="safety")]
    verdict = judge_quorum(TWO_GROUPS, C4, (), both, [voter("kay", "approver", groups="desk")])
    assert (verdict.granted, verdict.outcomes[0].given, verdict.outcomes[0].need) == (False, 1, Need.GROUPS)


def test_one_person_in_two_groups_is_one_person() -> None:
    verdict = judge_quorum(TWO_GROUPS, C4, (), [voter("grace", "approver", groups="safety desk")])
    assert (verdict.granted, verdict.outcomes[0].need) == (False, Need.NOBODY)


def test_whoever_is_in_two_groups_stands_for_the_one_that_is_free() -> None:
    both = [voter("grace", "approver", groups="safety desk"), voter("alan", "approver", groups="safety")]
    assert judge_quorum(TWO_GROUPS, C4, (), both).granted
    assert judge_quorum(TWO_GROUPS, C4, (), both[::-1]).granted


def test_each_destination_wants_its_own_owner() -> None:
    grace = voter("grace", "approver", "destination_owner:desk")
    verdict = judge_quorum(OWNED, C3, ("desk", "mail"), [grace], [voter("alan", "destination_owner:mail")])
    assert [(each.destination, each.need) for each in verdict.outcomes] == [
        ("", Need.SATISFIED),
        ("desk", Need.SATISFIED),
        ("mail", Need.PEOPLE),
    ]
    assert verdict.needed == 1


def test_a_destination_that_nobody_owns_is_said_to_wait_for_nobody() -> None:
    verdict = judge_quorum(OWNED, C3, ("desk",), [voter("grace", "approver")])
    assert verdict.outcomes[1].need is Need.NOBODY


def test_an_approvers_scope_covers_what_is_no_worse_and_never_the_policy() -> None:
    scoped = voter("grace", "approver:C3").standings
    assert [may_fill(scoped, "approver", change, "") for change in (C2, C3, C4, CP)] == [
        True,
        True,
        False,
        False,
    ]
    assert may_fill(voter("grace", "approver").standings, "approver", C4, "")
    assert not may_fill(voter("grace", "approver").standings, "approver", CP, "")
    assert may_fill(voter("grace", "approver:CP").standings, "approver", CP, "")
    assert not may_fill(voter("grace", "approver:CP").standings, "approver", C2, "")
    assert may_fill(voter("grace", "policy_admin").standings, "approver", CP, "")


@settings(deadline=None)
@given(
    st.lists(st.frozensets(st.sampled_from(["a", "b", "c", "d"]), max_size=4), min_size=0, max_size=5),
    st.integers(1, 4),
)
def test_groups_are_matched_as_well_as_they_can_be(members: list[frozenset[str]], groups: int) -> None:
    """Against every way of giving each person one group of theirs."""
    voters = [Voter(str(n), frozenset({Standing("approver")}), of) for n, of in enumerate(members)]
    best = {frozenset[str]()}
    for of in members:
        best |= {chosen | {group} for chosen in best for group in of}
    most = max(len(chosen) for chosen in best if len(chosen) <= len(members))
    rule = (Rule("r", "approver", 1, groups),)
    assert judge_quorum(rule, C4, (), voters).granted == (bool(voters) and most >= groups)


def test_one_more_vote_never_takes_a_grant_away() -> None:
    granted = [voter("grace", "approver", groups="safety"), voter("alan", "approver", groups="desk")]
    for extra in (voter("kay"), voter("kay", "approver", groups="safety"), voter("kay", "approver")):
        assert judge_quorum(TWO_GROUPS, C4, (), [*granted, extra]).granted


def test_an_owner_is_asked_only_where_a_destination_is_reached() -> None:
    rules = (Rule("approval", "approver", 1), Rule("owner", "destination_owner", 2))
    assert [people_asked(rules, reached, default=7) for reached in ((), ("desk",), ("desk", "mail"))] == [
        1,
        2,
        2,
    ]
    assert people_asked(rules[1:], (), default=7) == 7
