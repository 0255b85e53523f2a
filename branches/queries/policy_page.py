"""What the pages of policies show: the text in effect, what the linter says of it, what is proposed."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from branches.models import ApprovalRequest, Group, Person, PolicyChange, PolicySort, Workflow, Workspace
from branches.queries.clock import now
from branches.queries.deciders import Electorate, deciders_of
from branches.queries.declarations import read_workflow
from branches.queries.lowering import Lowered
from branches.queries.newest_workflow import version_before
from branches.queries.policies import policy_of, policy_row
from branches.queries.policy_text import PolicyProblem, as_text, default_document, default_text
from branches.queries.rule_words import rule_words
from branches.queries.standings import roster_of
from branches.queries.subject import Difference, differences
from branches.rules.change_class import ChangeClass
from branches.rules.policy import Finding, Policy, Severity, lint_policy


@dataclass(frozen=True, slots=True)
class ChangeTerms:
    """What a change of class CP needs now: so many others, and how long until it counts."""

    needed: int
    delay_s: int
    lives: timedelta
    is_founding: bool
    """Nobody ever asked for an approval here: there is nothing yet that could be got round."""
    available: int = 0
    """How many there are whose word would count."""
    is_closed: bool = False


def change_terms(workspace: Workspace, author: Person | None, *, about: str | None = None) -> ChangeTerms:
    """Return the terms; where fewer others exist than the policy asks for, all of them have to agree.

    `about` is whom a role is for: they do not decide on it while anybody else can.
    """
    policy, at = policy_of(workspace), now()
    asked = policy.of(ChangeClass.CP, at)
    if author is None:
        return ChangeTerms(0, 0, asked.request_lives, is_founding=False)
    deciders = deciders_of(workspace, author.uid, about)
    is_founding = not ApprovalRequest.objects.filter(branch__workspace=workspace).exists()
    delay = 0 if is_founding else int(policy.activation_delay.total_seconds())
    return ChangeTerms(
        needed=deciders.needed,
        delay_s=delay,
        lives=asked.request_lives,
        is_founding=is_founding,
        available=len(deciders.voters),
        is_closed=asked.is_closed,
    )


@dataclass(frozen=True, slots=True)
class ClassRow:
    """What one change class asks for, in words."""

    change: ChangeClass
    meaning: str
    rules: tuple[str, ...]
    is_closed: bool
    request_lives: timedelta
    grant_lives: timedelta


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change of class CP: what it is about, how far it is, and whether this person may decide it."""

    row: PolicyChange
    title: str
    given: int
    difference: tuple[Difference, ...]
    is_own: bool
    has_voted: bool
    may_decide: bool

    @property
    def lowers(self) -> tuple[Lowered, ...]:
        """In what a workflow's version asks less for, and than which workflow."""
        if self.row.sort != PolicySort.WORKFLOW:
            return ()
        return tuple(Lowered(**each) for each in json.loads(self.row.document)["lowers"])

    @property
    def came_to_nothing(self) -> bool:
        """Whether it was adopted, and could not be done any more when its time came."""
        return hasattr(self.row, "applied") and not self.row.applied.took_effect


@dataclass(frozen=True, slots=True)
class PolicyPage:
    """The policy in effect with its text, what the linter says, what comes next, and what is proposed."""

    policy: Policy
    text: str
    is_default: bool
    classes: tuple[ClassRow, ...]
    findings: tuple[Finding, ...]
    coming: PolicyChange | None
    open_changes: tuple[ChangeRow, ...]
    ended: tuple[ChangeRow, ...]
    terms: ChangeTerms

    @property
    def delay(self) -> timedelta:
        return timedelta(seconds=self.terms.delay_s)


def policy_page(workspace: Workspace, person: Person) -> PolicyPage:
    """Return the page as this person sees it."""
    at = now()
    row, policy = policy_row(workspace, at), policy_of(workspace, at)
    changes = PolicyChange.objects.filter(workspace=workspace).select_related(
        "workspace", "author", "end", "applied"
    )
    changes = changes.prefetch_related("votes__person").order_by("-id")
    later = changes.filter(sort=PolicySort.POLICY, end__word="adopted", end__effective_at__gt=at)
    document = json.loads(row.document) if row is not None else default_document()
    open_ones, over = (
        list(changes.filter(end__isnull=True)[:50]),
        list(changes.filter(end__isnull=False)[:20]),
    )
    here = _Here.of(workspace, [*open_ones, *over])
    return PolicyPage(
        policy=policy,
        text=default_text() if row is None else as_text(document),
        is_default=row is None,
        classes=tuple(_class_row(change, policy, at) for change in policy.classes),
        findings=lint_policy(policy, roster_of(workspace, at), destinations_here(workspace)),
        coming=later.first(),
        open_changes=tuple(_change_row(each, person, document, here) for each in open_ones),
        ended=tuple(_change_row(each, person, document, here) for each in over),
        terms=change_terms(workspace, person),
    )


def _class_row(change: ChangeClass, policy: Policy, at: datetime) -> ClassRow:
    asked = policy.of(change, at)
    return ClassRow(
        change,
        change.meaning,
        tuple(rule_words(rule) for rule in asked.rules),
        asked.is_closed,
        asked.request_lives,
        asked.grant_lives,
    )


@dataclass(frozen=True, slots=True)
class _Here:
    """What is read once for all changes on a page: who decides, and what people and groups are called."""

    electorate: Electorate
    people: Mapping[str, str]
    groups: Mapping[str, str]

    @classmethod
    def of(cls, workspace: Workspace, changes: Iterable[PolicyChange]) -> "_Here":
        asked = [json.loads(each.document) for each in changes if each.sort in _ABOUT_SOMEBODY]
        named = Person.objects.filter(uid__in={each["person"] for each in asked})
        groups = Group.objects.filter(workspace=workspace, uid__in={each.get("group", "") for each in asked})
        return cls(
            Electorate.of(workspace),
            dict(named.values_list("uid", "username")),
            dict(groups.values_list("uid", "name")),
        )


def _change_row(row: PolicyChange, person: Person, current: Mapping[str, Any], here: _Here) -> ChangeRow:
    asked = json.loads(row.document)
    votes = list(row.votes.all())
    has_voted = any(vote.person_id == person.pk for vote in votes)
    is_own = row.author_id == person.pk
    title, changed = _title(row, asked, here), _changed(row, asked, current)
    author = row.author.uid if row.author is not None else ""
    may = not hasattr(row, "end") and person.uid in here.electorate.deciders(author, about_of(row)).voters
    given = sum(1 for vote in votes if vote.word == "approved")
    return ChangeRow(row, title, given, changed, is_own, has_voted, may and not is_own and not has_voted)


def about_of(row: PolicyChange) -> str | None:
    """Return whom a proposed role or membership is for, or None of what is about nobody."""
    return str(json.loads(row.document)["person"]) if row.sort in _ABOUT_SOMEBODY else None


_ABOUT_SOMEBODY: Final = frozenset({PolicySort.ROLE, PolicySort.GROUP})


def _changed(
    row: PolicyChange, asked: Mapping[str, Any], policy: Mapping[str, Any]
) -> tuple[Difference, ...]:
    """Return what a text changes: of the policy in effect, or of the workflow's version before it."""
    match row.sort:
        case PolicySort.POLICY:
            return differences(dict(policy), dict(asked))
        case PolicySort.WORKFLOW:
            declared = asked["declaration"]
            before = version_before(row.workspace, declared["workflow"], declared["version"])
            return differences({} if before is None else json.loads(before.declaration), dict(declared))
    return ()


def _title(row: PolicyChange, asked: Mapping[str, Any], here: _Here) -> str:
    match row.sort:
        case PolicySort.POLICY:
            return f"policy {row.version}"
        case PolicySort.WORKFLOW:
            return f"workflow {asked['declaration']['workflow']} {row.version}, which asks for less"
        case PolicySort.GROUP:
            who = here.people.get(asked["person"], "somebody")
            return f"{who} into the group {here.groups.get(asked['group'], 'gone')}"
    return _role_title(asked, here)


def _role_title(asked: Mapping[str, Any], here: _Here) -> str:
    who = here.people.get(asked["person"], "somebody")
    scope = f" of {asked['scope']}" if asked["scope"] else ""
    until = f" until {asked['until'][:10]}" if asked["until"] else ""
    return f"{who} as {str(asked['role']).replace('_', ' ')}{scope}{until}"


def destinations_here(workspace: Workspace) -> tuple[str, ...]:
    """Return the destinations that the newest version of some workflow may write to, fixtures left out."""
    newest = {row.name: row for row in Workflow.objects.filter(workspace=workspace).order_by("id")}
    found: set[str] = set()
    for row in newest.values():
        declared = read_workflow(row)
        written = {tool.destination for tool in declared.tools.values() if tool.effect_class != "read"}
        found |= {name for name in written if name is not None and not declared.destinations[name].fixture}
    return tuple(sorted(found))


def lint_errors(findings: Iterable[Finding]) -> tuple[PolicyProblem, ...]:
    """Return the findings that stand in the way, as problems of the text."""
    return tuple(
        PolicyProblem(1, finding.field, finding.rule)
        for finding in findings
        if finding.severity is Severity.ERROR
    )
