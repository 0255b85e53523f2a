"""A policy as the rules read it: what each change class asks for, and whether its own tests agree."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from branches.rules.change_class import ChangeClass
from branches.rules.quorum import APPROVER, DESTINATION_OWNER, Rule, Standing, Voter, judge_quorum

DURATION: Final = re.compile(r"([1-9][0-9]{0,4})(m|h|d)")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class ClassPolicy:
    """What one change class asks for, and how long the asking and the answer are worth something."""

    rules: tuple[Rule, ...]
    request_lives: timedelta
    grant_lives: timedelta
    is_closed: bool
    """Nobody may let such a branch resume: said in the policy, not found out by waiting."""


@dataclass(frozen=True, slots=True)
class SelfApproval:
    """Where the only person of a workspace may approve their own request, until a date."""

    classes: frozenset[ChangeClass]
    until: datetime


@dataclass(frozen=True, slots=True)
class Policy:
    """One version of a policy, typed."""

    version: str
    digest: str
    classes: Mapping[ChangeClass, ClassPolicy]
    pre_authorised_until: datetime
    """Until then a confined branch (C1) needs its own rules alone, if it has any; after it, C2's as well."""
    self_approval: SelfApproval | None
    activation_delay: timedelta
    standing: Mapping[str, timedelta]
    """How long a role lasts at most, by role; one without a limit lasts until it is taken."""

    def of(self, change: ChangeClass, at: datetime) -> ClassPolicy:
        """Return what a class asks for at a moment."""
        own = self.classes[change]
        if change is ChangeClass.C1 and at >= self.pre_authorised_until:
            later = self.classes[ChangeClass.C2]
            rules = tuple(dict.fromkeys((*own.rules, *later.rules)))
            return replace(own, rules=rules, is_closed=own.is_closed or later.is_closed)
        return own

    def allows_self_approval(self, change: ChangeClass, at: datetime, people: int) -> bool:
        """Return whether the one person of a workspace may approve what they asked for themselves."""
        allowed = self.self_approval
        return allowed is not None and people == 1 and change in allowed.classes and at < allowed.until


def duration(text: str) -> timedelta:
    """Return a duration such as `30m`, `72h` or `180d`; ValueError for anything else."""
    found = DURATION.fullmatch(text)
    if found is None:
        raise ValueError("duration")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def read_policy(document: Mapping[str, Any], digest: str) -> Policy:
    """Return a document that its schema accepts as a policy."""
    own = document["self_approval"]
    return Policy(
        version=document["policy"],
        digest=digest,
        classes={ChangeClass(name): _class(asked) for name, asked in document["classes"].items()},
        pre_authorised_until=_moment(document["pre_authorised_until"]),
        self_approval=None
        if own is None
        else SelfApproval(frozenset(ChangeClass(name) for name in own["classes"]), _moment(own["until"])),
        activation_delay=duration(document["activation_delay"]),
        standing={role: duration(text) for role, text in document["standing"].items()},
    )


def _class(asked: Mapping[str, Any]) -> ClassPolicy:
    return ClassPolicy(
        rules=tuple(
            Rule(rule["name"], rule["role"], rule["people"], rule.get("groups", 0)) for rule in asked["rules"]
        ),
        request_lives=duration(asked["request_lives"]),
        grant_lives=duration(asked["grant_lives"]),
        is_closed=asked.get("closed", False),
    )


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


class Stage(StrEnum):
    """Where a request stands by its votes alone."""

    REQUESTED = "requested"
    PARTIAL = "partial"
    GRANTED = "granted"
    REJECTED = "rejected"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TestFailure:
    """An inline test of a policy that came out otherwise."""

    __test__ = False  # no test of ours

    name: str
    expected: str
    found: str


def failing_tests(policy: Policy, tests: Sequence[Mapping[str, Any]]) -> tuple[TestFailure, ...]:
    """Run the inline tests of a policy: who approved, and what that should come to."""
    found = []
    for test in tests:
        stage = _stage_of(policy, test)
        if stage != test["expect"]:
            found.append(TestFailure(test["name"], test["expect"], stage))
    return tuple(found)


def _stage_of(policy: Policy, test: Mapping[str, Any]) -> Stage:
    change = ChangeClass(test["class"])
    asked = policy.classes[change]
    if asked.is_closed:
        return Stage.CLOSED
    people = {name: voter_of(name, person) for name, person in test["people"].items()}
    approvals = [people[name] for name in test["approvals"] if name != test["requester"]]
    verdict = judge_quorum(asked.rules, change, test.get("destinations", ()), approvals)
    if verdict.granted:
        return Stage.GRANTED
    return Stage.PARTIAL if any(each.given for each in verdict.outcomes) else Stage.REQUESTED


def voter_of(name: str, person: Mapping[str, Any]) -> Voter:
    """Return somebody as an inline test writes them: roles as `role` or `role:scope`."""
    standings = frozenset(Standing(*role.split(":", 1)) for role in person.get("roles", ()))
    return Voter(name, standings, frozenset(person.get("groups", ())))


class Severity(StrEnum):
    """Whether a finding stands in the way."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """What the linter says of a policy in its workspace: where, by which rule, about whom or what."""

    severity: Severity
    field: str
    rule: str


def lint_policy(
    policy: Policy, roster: Mapping[str, Voter], destinations: Sequence[str]
) -> tuple[Finding, ...]:
    """Return what would not work here: rules nobody can satisfy, destinations without owner, overlap.

    `destinations` are those that some published workflow may write to and that are no fixtures.
    """
    found = [finding for change in policy.classes for finding in _lint_class(policy, change, roster)]
    owned = {
        each.scope for voter in roster.values() for each in voter.standings if each.role == DESTINATION_OWNER
    }
    wants_owner = any(
        rule.role == DESTINATION_OWNER for asked in policy.classes.values() for rule in asked.rules
    )
    found += [
        Finding(Severity.WARNING, f"destinations.{destination}", "destination_without_owner")
        for destination in (destinations if wants_owner else ())
        if destination not in owned
    ]
    approvers = [voter for voter in roster.values() if _holds(voter, APPROVER)]
    if len(approvers) == 1 and _holds(approvers[0], "engineer"):
        found.append(Finding(Severity.WARNING, "roles.approver", "role_overlap"))
    if policy.self_approval is not None and len(roster) > 1:
        found.append(Finding(Severity.WARNING, "self_approval", "more_than_one_person"))
    return tuple(found)


def _lint_class(policy: Policy, change: ChangeClass, roster: Mapping[str, Voter]) -> list[Finding]:
    asked = policy.classes[change]
    if asked.is_closed or not asked.rules or change is ChangeClass.CP:
        return []  # of a change of the policy itself all others have to agree, where they are fewer
    rules = [rule for rule in asked.rules if rule.role != DESTINATION_OWNER]
    engineers = [name for name, voter in roster.items() if _holds(voter, "engineer")]
    requesters: list[str | None] = [*engineers] or [None]
    fails = []
    for requester in requesters:
        others = [voter for name, voter in sorted(roster.items()) if name != requester]
        verdict = judge_quorum(rules, change, (), others)
        if verdict.granted or _alone(policy, change, roster):
            return []
        fails = [each.rule for each in verdict.outcomes if each.need != "satisfied"]
    return [Finding(Severity.ERROR, f"classes.{change}.{fails[0]}", "unsatisfiable")] if fails else []


def _alone(policy: Policy, change: ChangeClass, roster: Mapping[str, Voter]) -> bool:
    """Whether the only person here may approve their own."""
    allowed = policy.self_approval
    return len(roster) == 1 and allowed is not None and change in allowed.classes


def _holds(voter: Voter, role: str) -> bool:
    return any(each.role == role for each in voter.standings)
