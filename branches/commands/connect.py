"""What an engineer does to bring in their own work: declare a workflow, and let a recorder in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.db import transaction

from branches.commands.admit import issue_token
from branches.commands.append_receipt import Actor
from branches.commands.propose_change import propose_workflow
from branches.commands.publish_workflow import LOWERS, publish_workflow
from branches.commands.refusal import Refused
from branches.models import Person, PolicyChange, Role, Workflow, Workspace
from branches.queries.standings import roles_of
from branches.queries.workflow_text import read_workflow_text
from branches.queries.writers import confirms_outcomes
from branches.queries.yaml_text import TextProblem

_SENDS: Final = ("ingest",)
_RESUMES: Final = ("ingest", "redeem")
RECORDER_SCOPES: Final[Mapping[str, tuple[str, ...]]] = {
    "langgraph": _RESUMES,
    "openai-agents": _RESUMES,
    "autogen": _RESUMES,  # pairing takes it, and the workspace's key comes with that
    "ai-sdk": _SENDS,
    "opentelemetry": _SENDS,
}
"""The least verbs by runtime: reading runs and asking for outcomes is nothing that a recorder does."""
RECORDER_LIVES: Final = timedelta(days=90)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


@dataclass(frozen=True, slots=True)
class DeclaredWorkflow:
    """What became of a declaration: it is published, or a change that others decide on."""

    workflow: Workflow | None
    change: PolicyChange | None


def declare_workflow(*, person: Person, workspace: Workspace, text: str) -> DeclaredWorkflow:
    """Publish the workflow that a YAML or JSON text declares. Raises Refused with field and rule.

    Where it asks less for than what is published, it is proposed, and others decide first.
    """
    _require_engineer(person, workspace)
    try:
        declaration = read_workflow_text(text)
    except TextProblem as problem:
        raise Refused(rule=f"{problem.rule.partition(':')[0]}", field=f"line {problem.line}") from None
    try:
        row = publish_workflow(workspace=workspace, publisher=person.uid, declaration=declaration)
        return DeclaredWorkflow(row, None)
    except Refused as refused:
        if refused.rule != LOWERS:
            raise
    return DeclaredWorkflow(
        None, propose_workflow(person=person, workspace=workspace, declaration=declaration)
    )


def issue_recorder_token(*, person: Person, workspace: Workspace, name: str, runtime: str) -> str:
    """Return the secret of a token for a recorder of this workspace; it is shown this once.

    It carries the verbs that a recorder of the runtime needs. Under a name that a workflow here lets confirm
    outcomes only a policy admin gives one (`give_token`). Raises Refused with field and rule.
    """
    _require_engineer(person, workspace)
    if runtime not in RECORDER_SCOPES:
        raise Refused(rule="enum", field="runtime")
    if not _NAME.fullmatch(name):
        raise Refused(rule="pattern:name", field="name")
    if confirms_outcomes(workspace, name):
        raise Refused(rule="name_entitled", field="name")
    with transaction.atomic():
        _, secret = issue_token(
            workspace=workspace,
            name=name,
            scopes=RECORDER_SCOPES[runtime],
            lives=RECORDER_LIVES,
            actor=Actor.person(person),
        )
    return secret


def _require_engineer(person: Person, workspace: Workspace) -> None:
    if Role.ENGINEER not in roles_of(person, workspace):
        raise Refused(rule=f"role:{Role.ENGINEER}")
