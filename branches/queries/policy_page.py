"""What the pages of policies show: the text in effect, what the linter says of it, what is proposed."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from branches.models import ApprovalRequest, Person, PolicyChange, PolicySort, Workflow, Workspace
from branches.queries.clock import now
from branches.queries.declarations import read_workflow
from branches.queries.policies import policy_of, policy_row
from branches.queries.policy_text import PolicyProblem, as_text, default_text
from branches.queries.standings import roster_of
from branches.rules.change_class import ChangeClass
from branches.rules.policy import Finding, Policy, Severity, lint_policy
from branches.rules.quorum import APPROVER, may_fill


@dataclass(frozen=True, slots=True)
class ChangeTerms:
    """What a change of class CP needs now: so many others, and how long until it counts."""

    needed: int
    delay_s: int
    lives: timedelta
    is_founding: bool
    """Nobody ever asked for an approval here: there is nothing yet that could be got round."""


def change_terms(workspace: Workspace, author: Person | None) -> ChangeTerms:
    """Return the terms; where fewer others exist than the policy asks for, all of them have to agree."""
    policy, at = policy_of(workspace), now()
    asked = policy.of(ChangeClass.CP, at)
    if author is None:
        return ChangeTerms(0, 0, asked.request_lives, is_founding=False)
    others = [
        voter
        for uid, voter in roster_of(workspace, at).items()
        if uid != author.uid and may_fill(voter.standings, APPROVER, ChangeClass.CP, "")
    ]
    people = max((rule.people for rule in asked.rules), default=0)
    is_founding = not ApprovalRequest.objects.filter(branch__workspace=workspace).exists()
    delay = 0 if is_founding else int(policy.activation_delay.total_seconds())
    return ChangeTerms(min(people, len(others)), delay, asked.request_lives, is_founding)


@dataclass(frozen=True, slots=True)
class PolicyPage:
    """The policy in effect with its text, what the linter says, what comes next, and what is proposed."""

    policy: Policy
    text: str
    is_default: bool
    findings: tuple[Finding, ...]
    coming: PolicyChange | None
    open_changes: tuple[PolicyChange, ...]
    ended: tuple[PolicyChange, ...]
    at: datetime


def policy_page(workspace: Workspace) -> PolicyPage:
    """Return the page."""
    at = now()
    row, policy = policy_row(workspace, at), policy_of(workspace, at)
    changes = PolicyChange.objects.filter(workspace=workspace).select_related("author", "end")
    changes = changes.prefetch_related("votes__person").order_by("-id")
    later = changes.filter(sort=PolicySort.POLICY, end__word="adopted", end__effective_at__gt=at)
    return PolicyPage(
        policy=policy,
        text=default_text() if row is None else as_text(json.loads(row.document)),
        is_default=row is None,
        findings=lint_policy(policy, roster_of(workspace, at), destinations_here(workspace)),
        coming=later.first(),
        open_changes=tuple(changes.filter(end__isnull=True)[:50]),
        ended=tuple(changes.filter(end__isnull=False)[:20]),
        at=at,
    )


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
