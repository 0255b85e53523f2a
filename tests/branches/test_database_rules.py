"""Four eyes are held by the database: what the commands would never write is refused by the rule's name."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import Critical
from django.db import connection

from branches.commands.admit import grant_role
from branches.commands.decide import decide, revoke_authority
from branches.commands.decide_change import decide_change
from branches.commands.issue_permit import issue_permit
from branches.commands.propose_change import adopt_policy, propose_policy
from branches.commands.redeem_permit import redeem_permit
from branches.commands.request_approval import request_approval, withdraw_request
from branches.database_rules import RULES, DatabaseRule, check_rules, install_rules, missing_rules
from branches.evidence import ids
from branches.models import (
    ApprovalRequest,
    Decision,
    Grant,
    Person,
    PolicyChange,
    PolicyChangeEnd,
    PolicyVote,
    ResumePermit,
    Role,
)
from branches.queries.clock import now
from tests.branches.raw_rows import (
    ALONE,
    READS_OUTSIDE,
    again,
    granted,
    leave,
    permit,
    policy,
    refused_by,
    small_branch,
    small_world,
    standing,
    vote,
)
from tests.branches.test_approval_queue import ready
from tests.branches.test_branch_life import approve
from tests.builders import World, make_world
from tests.plugins import FakeWorld


@pytest.fixture
def asked(world: World, outside: FakeWorld) -> ApprovalRequest:
    """A request of class C4 by Ada, which nobody has decided; she and Linus might, by their roles."""
    standing(world, world.ada, world.linus)
    return request_approval(person=world.ada, branch=ready(world, outside))


# Decisions


def test_nobody_who_worked_on_a_branch_decides_on_it(world: World, asked: ApprovalRequest) -> None:
    with refused_by("own_work"):
        vote(asked, world.ada)


@pytest.mark.parametrize("how", ["never", "taken", "over", "switched_off", "elsewhere"])
def test_nobody_decides_without_a_role_here(world: World, asked: ApprovalRequest, how: str) -> None:
    person = world.grace
    if how == "never":
        person = Person.objects.create_user("nobody")
    elif how == "taken":
        leave(world, person)
    elif how == "over":
        ends = now() - timedelta(seconds=1)
        grant_role(person=person, workspace=world.workspace, role=Role.APPROVER, until=ends)
    elif how == "switched_off":
        Person.objects.filter(pk=person.pk).update(is_active=False)
    else:
        person = make_world("elsewhere").grace
    with refused_by("no_standing"):
        vote(asked, person)


@pytest.mark.parametrize("role", [Role.ENGINEER, Role.VIEWER, Role.AUDITOR])
def test_no_role_that_decides_nothing_decides(world: World, asked: ApprovalRequest, role: Role) -> None:
    person = Person.objects.create_user("kay")
    grant_role(person=person, workspace=world.workspace, role=role)
    with refused_by("no_standing"):
        vote(asked, person)


def test_nobody_decides_on_another_digest_than_was_asked_for(world: World, asked: ApprovalRequest) -> None:
    with refused_by("other_digest"):
        vote(asked, world.grace, subject_digest="sha256:other")


def test_nobody_decides_on_a_request_that_is_over(world: World, asked: ApprovalRequest) -> None:
    withdraw_request(person=world.ada, request=asked)
    with refused_by("request_over"):
        vote(asked, world.grace)


def test_nobody_decides_on_a_branch_that_was_resumed(world: World, outside: FakeWorld) -> None:
    request = approve(world, ready(world, outside))
    standing(world, world.linus)
    made = issue_permit(person=world.ada, branch=request.branch)
    redeem_permit(recorder=world.recorder, permit=made, attempt=ids.mint("att"))
    with refused_by("request_over"):
        vote(request, world.linus)


def test_nobody_approves_their_own_request_of_a_worse_class(world: World, outside: FakeWorld) -> None:
    adopt_policy(workspace=world.workspace, text=policy("alone", self_approval=ALONE))
    request = request_approval(person=world.ada, branch=ready(world, outside))
    assert request.change_class == "C4"
    leave(world, world.grace, world.rosa)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    with refused_by("self_approval"):
        vote(request, world.ada, by_requester=True)


def test_nobody_approves_their_own_request_where_the_policy_does_not_allow_it(
    db: None, outside: FakeWorld
) -> None:
    world = small_world(READS_OUTSIDE)
    request = request_approval(person=world.ada, branch=small_branch(world))
    assert request.change_class == "C2"
    leave(world, world.grace, world.rosa)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    with refused_by("self_approval"):
        vote(request, world.ada, by_requester=True)


def test_the_only_person_of_a_workspace_still_approves_their_own_by_a_dated_policy(
    db: None, outside: FakeWorld
) -> None:
    world = small_world(READS_OUTSIDE, self_approval=ALONE)
    leave(world, world.grace, world.rosa)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    request = request_approval(person=world.ada, branch=small_branch(world))
    own = decide(
        person=world.ada,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )
    assert own.by_requester
    assert issue_permit(person=world.ada, branch=request.branch).approvals_needed == 1


def test_the_last_person_may_have_worked_on_what_somebody_else_asked_for(
    db: None, outside: FakeWorld
) -> None:
    world = small_world(READS_OUTSIDE, self_approval=ALONE)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.ENGINEER)
    request = request_approval(person=world.ada, branch=small_branch(world, world.grace))
    leave(world, world.ada, world.rosa)
    own = decide(
        person=world.grace,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )
    assert own.by_requester
    assert Grant.objects.filter(request=request).exists()


@pytest.fixture
def own(db: None, outside: FakeWorld) -> tuple[World, ApprovalRequest]:
    """A request of class C2 by Ada, alone with Linus who looks on, where one person may approve their own."""
    world = small_world(READS_OUTSIDE, self_approval=ALONE)
    leave(world, world.grace, world.rosa)
    grant_role(person=world.linus, workspace=world.workspace, role=Role.REVIEWER)
    grant_role(person=world.ada, workspace=world.workspace, role=Role.APPROVER)
    return world, request_approval(person=world.ada, branch=small_branch(world))


def test_nobody_approves_their_own_request_beside_somebody_else(own: tuple[World, ApprovalRequest]) -> None:
    world, request = own
    with refused_by("not_alone"):
        vote(request, world.ada, by_requester=True)


@pytest.mark.parametrize("how", ["taken", "ended", "switched_off"])
def test_whoever_holds_no_role_any_more_is_nobody_else(own: tuple[World, ApprovalRequest], how: str) -> None:
    world, request = own
    if how == "taken":
        leave(world, world.linus)
    elif how == "ended":
        # The newest row of the role counts: it was to end a moment ago.
        grant_role(
            person=world.linus,
            workspace=world.workspace,
            role=Role.REVIEWER,
            until=now() - timedelta(seconds=1),
        )
    else:
        Person.objects.filter(pk=world.linus.pk).update(is_active=False)
    assert vote(request, world.ada, by_requester=True).pk


def test_a_role_that_was_given_again_counts_although_it_had_been_taken(
    own: tuple[World, ApprovalRequest],
) -> None:
    world, request = own
    leave(world, world.linus)
    grant_role(person=world.linus, workspace=world.workspace, role=Role.REVIEWER)
    with refused_by("not_alone"):
        vote(request, world.ada, by_requester=True)


def test_somebody_who_did_no_work_decides_as_themselves(own: tuple[World, ApprovalRequest]) -> None:
    world, request = own
    leave(world, world.ada)
    with refused_by("not_own_work"):
        vote(request, world.linus, by_requester=True)


# Grants


def test_nothing_is_granted_that_nobody_approved(world: World, asked: ApprovalRequest) -> None:
    with refused_by("unapproved"):
        granted(asked)


def test_nothing_is_granted_that_somebody_rejected(world: World, asked: ApprovalRequest) -> None:
    vote(asked, world.grace)
    vote(asked, world.linus, "rejected")
    with refused_by("vetoed"):
        granted(asked)


def test_nothing_is_granted_after_the_request_is_over(world: World, asked: ApprovalRequest) -> None:
    vote(asked, world.grace)
    withdraw_request(person=world.ada, request=asked)
    with refused_by("request_over"):
        granted(asked)


def test_nothing_is_granted_on_a_branch_whose_authority_was_taken_back(
    world: World, asked: ApprovalRequest
) -> None:
    revoke_authority(person=world.grace, branch=asked.branch, reason="not_now")
    newer = again(asked)
    vote(newer, world.linus)
    with refused_by("vetoed"):
        granted(newer)


# Changes of the policy


@pytest.fixture
def change(world: World) -> PolicyChange:
    """A policy that Rosa proposed, on which two others have to agree."""
    for person in (world.rosa, world.linus, world.grace):
        grant_role(person=person, workspace=world.workspace, role=Role.POLICY_ADMIN)
    return propose_policy(person=world.rosa, workspace=world.workspace, text=policy("next"))


def vote_on(change: PolicyChange, person: Person, **changes: Any) -> PolicyVote:
    values: dict[str, Any] = {"word": "approved", "digest": change.digest, "at": now()}
    return PolicyVote.objects.create(change=change, person=person, **{**values, **changes})


def test_nobody_votes_on_their_own_proposal_or_on_another_digest(world: World, change: PolicyChange) -> None:
    with refused_by("own_change"):
        vote_on(change, world.rosa)
    with refused_by("own_change"):
        vote_on(change, world.grace, digest="sha256:other")


def test_nobody_votes_on_the_change_of_a_workspace_they_do_not_belong_to(
    world: World, change: PolicyChange
) -> None:
    with refused_by("no_member"):
        vote_on(change, make_world("elsewhere").grace)


def test_nobody_votes_on_a_change_that_is_over(world: World, change: PolicyChange) -> None:
    decide_change(person=world.grace, change=change, word="rejected", digest=change.digest)
    with refused_by("change_over"):
        vote_on(change, world.linus)


@pytest.mark.parametrize("words", [("approved",), ("approved", "approved", "rejected")])
def test_no_change_is_adopted_by_too_few_or_against_a_rejection(
    world: World, change: PolicyChange, words: tuple[str, ...]
) -> None:
    for person, word in zip((world.grace, world.linus, world.ada), words, strict=False):
        vote_on(change, person, word=word)
    with refused_by("undecided"):
        PolicyChangeEnd.objects.create(change=change, word="adopted", effective_at=now(), at=now())


def test_no_change_is_proposed_past_somebody_who_approves(world: World, change: PolicyChange) -> None:
    with refused_by("nobody_asked"):
        PolicyChange.objects.create(
            uid=ids.mint("pol"),
            workspace=change.workspace,
            sort=change.sort,
            version="mine",
            digest="sha256:mine",
            document=change.document,
            author=world.rosa,
            needed=0,
            delay_s=0,
            at=now(),
            expires_at=change.expires_at,
        )


# The rules themselves


def settle_constraints() -> None:
    """Check at once what PostgreSQL would check at the end: it alters no table before."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.trigger)
def test_the_start_check_names_a_rule_whose_trigger_is_gone(db: None, rule: DatabaseRule) -> None:
    assert missing_rules(connection) == []
    settle_constraints()
    on = f" ON {rule.table}" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TRIGGER {rule.trigger}{on}")
    assert missing_rules(connection) == [rule.trigger]
    (problem,) = check_rules(databases=["default"])
    assert isinstance(problem, Critical)
    assert rule.trigger in problem.msg
    install_rules(connection)
    assert missing_rules(connection) == []


def test_a_rule_of_the_same_name_that_lets_everything_through_is_no_rule(db: None) -> None:
    rule, settled = RULES[0], DatabaseRule(RULES[0].table, RULES[0].name, "1 = 2")
    settle_constraints()
    install_rules(connection, [settled])
    assert missing_rules(connection) == [rule.trigger]


if connection.vendor == "postgresql":

    @pytest.mark.parametrize(
        "sql",
        [
            "ALTER FUNCTION {name}() RESET search_path",
            "ALTER FUNCTION {name}() SET search_path = pg_temp, public",
            "ALTER TABLE {table} ENABLE TRIGGER {name}",
            (
                "DROP TRIGGER {name} ON {table}; CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW "
                "EXECUTE FUNCTION {name}(); ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
            ),
            # A temporary table of the same name, with a trigger of the same name, is not the one that counts.
            (
                "DROP TRIGGER {name} ON {table}; CREATE TEMPORARY TABLE {table} (id int); "
                "CREATE TRIGGER {name} BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {name}(); "
                "ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}"
            ),
        ],
    )
    def test_a_trigger_that_reads_or_fires_otherwise_is_named_at_start(db: None, sql: str) -> None:
        rule = RULES[0]
        settle_constraints()
        with connection.cursor() as cursor:
            cursor.execute(sql.format(name=rule.trigger, table=rule.table))
        assert missing_rules(connection) == [rule.trigger]

    def test_a_temporary_table_of_the_same_name_changes_nothing(world: World, asked: ApprovalRequest) -> None:
        """The temporary schema is searched first unless a function says otherwise."""
        settle_constraints()
        written = {Decision, Grant, ResumePermit}
        hidden = sorted(
            table
            for table in connection.introspection.table_names()
            if table.startswith("branches_") and table not in {model._meta.db_table for model in written}
        )
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_schema()")
            (schema,) = cursor.fetchone()
            for table in hidden:
                cursor.execute(f"CREATE TEMPORARY TABLE {table} (LIKE {schema}.{table} INCLUDING DEFAULTS)")
        assert not ApprovalRequest.objects.exists()
        with refused_by("own_work"):
            vote(asked, world.ada)
        with refused_by("unapproved"):
            granted(asked)
        with refused_by("no_grant"):
            permit(world, asked.branch, 0, asked.subject_digest)
