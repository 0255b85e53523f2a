"""Pins a branch's configuration by digest and records its delta; the parent's original stays untouched."""

import json

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.guards import open_branch, require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence import canonical, domains
from branches.models import ConfigurationPin, Person, Role, Run
from branches.queries.clock import now
from branches.queries.configuration import configuration_digest, configuration_of
from branches.queries.declarations import declaration_of
from branches.queries.secrets import workspace_key

CHANGEABLE = ("role", "model", "prompt")


def pin_configuration(
    *, branch: Run, actor: Actor, changes: dict[str, str | None] | None = None
) -> ConfigurationPin | None:
    """Pin the parent's parts with the changes applied, in the caller's transaction and lock.

    Returns None where the parent's configuration is not known: then gate 5 stays shut and says so.
    """
    assert branch.parent is not None  # noqa: S101 - callers hold a branch
    original = configuration_of(branch.parent)
    if original is None:
        return None
    parts = {**(configuration_of(branch) or original), **(changes or {})}
    changed = sorted({key.rsplit(".", 1)[-1] for key in parts if parts[key] != original.get(key)})
    digest = configuration_digest(parts)
    delta = {key: [original.get(key), parts[key]] for key in parts if parts[key] != original.get(key)}
    append_receipt(
        run=branch,
        kind="configuration_pinned",
        body={
            "configuration": digest,
            "original": configuration_digest(original),
            "delta": canonical.digest(canonical.CONFIGURATION, delta) if delta else None,
            "changed": changed,
        },
        actor=actor,
    )
    return ConfigurationPin.objects.create(
        branch=branch,
        original=configuration_digest(original),
        digest=digest,
        parts=json.dumps(parts, sort_keys=True),
        pinned_by=actor.id,
        at=now(),
    )


def change_configuration(*, person: Person, branch: Run, agent: str, key: str, value: str) -> None:
    """Change one agent's model, role or prompt on the branch; a prompt or role is kept as its HMAC only."""
    require_role(person, branch, Role.ENGINEER)
    declaration = declaration_of(branch)
    if declaration is None or agent not in declaration.agents:
        raise Refused(rule="declared", field="agent")
    if key not in CHANGEABLE:
        raise Refused(rule="enum", field="key")
    if not value.strip():
        raise Refused(rule="required", field="value")
    if key == "model":
        if value not in declaration.names["model"]:
            raise Refused(rule="declared", field="value")
        after = value
    else:
        key_of = workspace_key(branch.workspace)
        # The same digests that a recorder takes of the configuration it runs with.
        after = (
            key_of.digest(domains.PROMPT, value)
            if key == "prompt"
            else key_of.digest(domains.NAME, f"role\0{value}")
        )
    with transaction.atomic():
        open_branch(branch)
        parts = configuration_of(branch)
        if parts is None:
            raise Refused(rule="configuration_unknown")
        part = f"{agent}.{key}"
        append_receipt(
            run=branch,
            kind="configuration_changed",
            body={
                "key": key,
                "agent": agent,
                "before": _digested(branch, parts.get(part)),
                "after": _digested(branch, after),
            },
            actor=Actor.person(person),
            subject=part,
        )
        pin_configuration(branch=branch, actor=Actor.person(person), changes={part: after})
        supersede_requests(root_ids=[branch.family_id])


def _digested(branch: Run, value: str | None) -> str | None:
    """Return a part as the receipt carries it: a digest as it is, a declared model's name under HMAC."""
    if value is None or value.startswith(("sha256:", "hmac-sha256:")):
        return value
    return workspace_key(branch.workspace).digest(canonical.NAME, f"model\0{value}")
