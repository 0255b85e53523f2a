"""Lets a named person accept a key's drift, where the workflow allows it: the branch becomes a diagnosis."""

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, require_role, require_shown
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence.kinds.product import DRIFT_REASONS
from branches.models import Person, Role, Run
from branches.queries.acknowledgement import is_never_acknowledgeable
from branches.queries.branch_facts import branch_view


def acknowledge_drift(*, person: Person, branch: Run, key: str, shown: str, reason: str) -> None:
    """Acknowledge the drift of one key exactly as it was shown, for a reason from the closed list."""
    require_role(person, branch, Role.ENGINEER)
    if reason not in DRIFT_REASONS:
        raise Refused(rule="enum", field="reason")
    with transaction.atomic():
        open_branch(branch)
        evidence = next((item for item in branch_view(branch).keys if item.key.name == key), None)
        if evidence is None:
            raise Refused(rule="declared", field="key")
        if not evidence.key.acknowledgeable:
            raise Refused(rule="not_acknowledgeable", field="key")
        if is_never_acknowledgeable(
            evidence.key.probe
        ):  # a workflow that was published before its probe said so
            raise Refused(rule="never_acknowledgeable", field="key")
        if evidence.measured is None or evidence.measured.body["result"] != "drifted":
            raise Refused(rule="not_drifted", field="key")
        require_shown(shown, evidence.shown)
        append_receipt(
            run=branch,
            kind="drift_acknowledged",
            body={"key": key, "fingerprint": evidence.measured.body["fingerprint"], "reason": reason},
            actor=Actor.person(person),
            subject=key,
        )
        supersede_requests(root_ids=[branch.family_id])
