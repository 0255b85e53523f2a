"""Proposes a change of class CP: a policy, or what would lower what one asks for; others decide on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_authority
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.apply_change import adopt_change, require_new_version
from branches.commands.publish_workflow import checked_declaration, lowered_by
from branches.commands.refusal import Refused
from branches.evidence import canonical, ids
from branches.models import Group, Person, PolicyChange, PolicySort, Role, Workspace
from branches.queries.clock import now, stamp
from branches.queries.policies import policy_of
from branches.queries.policy_page import change_terms, destinations_here, lint_errors
from branches.queries.policy_text import MAX_BYTES, read_policy_text
from branches.queries.standings import roles_of, roster_of
from branches.rules.change_class import ChangeClass
from branches.rules.policy import lint_policy


class PolicyRefused(Refused):
    """A policy's text is not one: every problem with its line."""

    def __init__(self, problems: tuple[Any, ...]) -> None:
        first = problems[0]
        super().__init__(rule=first.rule, field=first.field or "policy")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is proposed: exact bytes, their digest, and a version that people know it by."""

    sort: PolicySort
    version: str
    document: str
    digest: str


def propose_policy(*, person: Person, workspace: Workspace, text: str) -> PolicyChange:
    """Return the change, adopted already where nobody else has to agree. Raises Refused, PolicyRefused."""
    require_admin(person, workspace)
    return _propose(workspace, _policy(workspace, text), person)


def adopt_policy(*, workspace: Workspace, text: str) -> PolicyChange:
    """Adopt a policy by the operator's own word: whoever runs the server needs nobody's. Safe to repeat."""
    proposal = _policy(workspace, text, is_operator=True)
    if policy_of(workspace).digest == proposal.digest:
        known = PolicyChange.objects.filter(workspace=workspace, digest=proposal.digest).last()
        if known is not None:
            return known
    return _propose(workspace, proposal, None)


def _policy(workspace: Workspace, text: str, *, is_operator: bool = False) -> Proposal:
    if len(text) > MAX_BYTES:
        raise Refused(rule=f"max_bytes:{MAX_BYTES}", field="policy")
    found = read_policy_text(text)
    if found.document is None:
        raise PolicyRefused(found.problems)
    findings = lint_policy(found.policy(), roster_of(workspace), destinations_here(workspace))
    errors = lint_errors(findings)
    if errors and not is_operator:
        raise PolicyRefused(errors)
    document = canonical.canonical_bytes(found.document).decode()
    return Proposal(PolicySort.POLICY, found.policy().version, document, found.digest)


def propose_role(*, person: Person, workspace: Workspace, document: Mapping[str, Any]) -> PolicyChange:
    """Propose a role that gives authority: {person, role, scope, until}, `until` a stamp or None."""
    require_admin(person, workspace)
    text = canonical.canonical_bytes(dict(document)).decode()
    digest = canonical.digest(canonical.POLICY, dict(document))
    about = str(document["person"])
    return _propose(workspace, Proposal(PolicySort.ROLE, "", text, digest), person, about=about)


def propose_membership(*, person: Person, group: Group, subject: Person) -> PolicyChange:
    """Propose that somebody joins a group: where words of different groups are asked for, it gives one more.

    Raises Refused.
    """
    require_admin(person, group.workspace)
    document = {"group": group.uid, "person": subject.uid}
    text = canonical.canonical_bytes(document).decode()
    digest = canonical.digest(canonical.POLICY, document)
    proposal = Proposal(PolicySort.GROUP, "", text, digest)
    return _propose(group.workspace, proposal, person, about=subject.uid)


def propose_workflow(*, person: Person, workspace: Workspace, declaration: Mapping[str, Any]) -> PolicyChange:
    """Propose a version of a workflow that asks less for than what is published. Raises Refused.

    What others agree to is the declaration with all that it lowers, field by field.
    """
    checked_declaration(declaration)
    lowers = [{"workflow": each.workflow, "field": each.field} for each in lowered_by(workspace, declaration)]
    document = {"declaration": dict(declaration), "lowers": lowers}
    text = canonical.canonical_bytes(document).decode()
    digest = canonical.digest(canonical.POLICY, document)
    version = str(declaration["version"])
    return _propose(workspace, Proposal(PolicySort.WORKFLOW, version, text, digest), person)


def proposer_role(sort: str) -> Role:
    """Return the role that whoever proposes a change of this sort holds, and has to hold still."""
    return Role.ENGINEER if sort == PolicySort.WORKFLOW else Role.POLICY_ADMIN


def require_admin(person: Person, workspace: Workspace) -> None:
    """Refuse whoever is no policy admin of a workspace now."""
    _require(person, workspace, Role.POLICY_ADMIN)


def _require(person: Person, workspace: Workspace, role: Role) -> None:
    if role not in roles_of(person, workspace):
        raise Refused(rule=f"role:{role}")


def _propose(
    workspace: Workspace, proposal: Proposal, author: Person | None, *, about: str | None = None
) -> PolicyChange:
    actor = Actor.person(author) if author is not None else Actor.product(workspace)
    with transaction.atomic():
        lock_authority(workspace)
        if author is not None:
            _require(author, workspace, proposer_role(proposal.sort))
        require_new_version(workspace, proposal.sort, proposal.version, proposal.digest)
        terms = change_terms(workspace, author, about=about)
        if terms.is_closed:
            raise Refused(rule=f"class_closed:{ChangeClass.CP}")
        if terms.needed > terms.available:
            raise Refused(rule="deciders_left_lately")
        at = now()
        open_ones = PolicyChange.objects.filter(workspace=workspace, sort=proposal.sort, end__isnull=True)
        if author is not None and open_ones.filter(digest=proposal.digest).exists():
            raise Refused(rule="already_requested")
        change = PolicyChange.objects.create(
            uid=ids.mint("pol"),
            workspace=workspace,
            sort=proposal.sort,
            version=proposal.version,
            digest=proposal.digest,
            document=proposal.document,
            author=author,
            needed=terms.needed,
            delay_s=terms.delay_s,
            at=at,
            expires_at=at + terms.lives,
        )
        append_to_workspace(
            workspace=workspace,
            kind="change_proposed",
            body={
                "change": change.uid,
                "sort": str(proposal.sort),
                "digest": proposal.digest,
                "policy": policy_of(workspace).digest,
                "approvals": terms.needed,
                "expires_at": stamp(change.expires_at),
            },
            actor=actor,
            subject=change.uid,
        )
        if terms.needed == 0:
            adopt_change(change, actor)
    return change
