"""Records an edit by its digest; the text goes sealed to the recorder and is not kept."""

import json
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.fork_branch import EDIT_CLASSES
from branches.commands.guards import open_branch, require_role
from branches.commands.refusal import Refused
from branches.commands.supersede_requests import supersede_requests
from branches.evidence import boxes, domains, plain_json
from branches.evidence.keys import is_hmac
from branches.models import Edit, Person, Recorder, Role, Run, SealedEdit
from branches.queries.clock import now
from branches.queries.edit_page import can_unseal, editable_keys, read_only
from branches.queries.lineage_messages import is_message_before
from branches.queries.secrets import workspace_key

MAX_EDIT_BYTES: Final = 64 * 1024


def edit_message(*, person: Person, branch: Run, target: str, text: str, edit_class: str) -> Edit:
    """Record that a message of the branch's own past will be replaced when it resumes. Raises Refused."""
    recorder = _recorder(person, branch, text, edit_class)
    if not is_hmac(target) or not is_message_before(branch, target):
        raise Refused(rule="message_not_before_fork", field="target")
    return _record(person, branch, recorder, target, None, text, edit_class)


def edit_value(
    *, person: Person, branch: Run, state_key: str, target: str, text: str, edit_class: str
) -> Edit:
    """Record that a value of a state key (by the HMAC of its name) will be replaced; the text is its JSON.

    Whether the checkpoint holds that value only the recorder knows: it looks before it redeems. Raises
    Refused.
    """
    recorder = _recorder(person, branch, text, edit_class)
    if state_key not in editable_keys(branch):
        raise Refused(rule="state_key_not_editable", field="state_key")
    if not is_hmac(target):
        raise Refused(rule="value_unknown", field="target")
    if not _is_json(text):
        raise Refused(rule="json", field="text")
    return _record(person, branch, recorder, target, state_key, text, edit_class)


def _recorder(person: Person, branch: Run, text: str, edit_class: str) -> Recorder:
    require_role(person, branch, Role.ENGINEER)
    if edit_class not in EDIT_CLASSES:
        raise Refused(rule="enum", field="edit_class")
    if not text.strip():
        raise Refused(rule="required", field="text")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_EDIT_BYTES:
        raise Refused(rule="max_bytes", field="text")
    if branch.recorder is None or not can_unseal(branch.recorder):
        raise Refused(rule="no_recorder")
    if read_only(branch) is not None:
        raise Refused(rule="edits_unsupported")
    return branch.recorder


def _record(
    person: Person,
    branch: Run,
    recorder: Recorder,
    target: str,
    state_key: str | None,
    text: str,
    edit_class: str,
) -> Edit:
    with transaction.atomic():
        open_branch(branch)
        edit = _append(person, branch, target, state_key, text, edit_class)
        # Only the newest edit of a message or value is applied, so an older text need not lie about.
        SealedEdit.objects.filter(edit__branch=branch, edit__target=target).delete()
        SealedEdit.objects.create(
            edit=edit,
            recorder=recorder,
            ciphertext=boxes.seal(bytes.fromhex(recorder.box_key), json.dumps({"text": text}).encode()),
        )
        supersede_requests(root_ids=[branch.family_id])
    return edit


def _append(
    person: Person, branch: Run, target: str, state_key: str | None, text: str, edit_class: str
) -> Edit:
    digest = workspace_key(branch.workspace).digest(domains.EDIT, text)
    append_receipt(
        run=branch,
        kind="edited",
        body={"target": target, "state_key": state_key, "edit": digest, "edit_class": edit_class},
        actor=Actor.person(person),
        subject=target,
    )
    return Edit.objects.create(
        branch=branch,
        target=target,
        state_key=state_key,
        digest=digest,
        edit_class=edit_class,
        editor=person,
        at=now(),
    )


def _is_json(text: str) -> bool:
    """Whether the recorder will take the text too: what it refuses it must not get."""
    try:
        plain_json.parsed(text)
    except ValueError:
        return False
    return True
