"""Records that somebody was shown an edit before they decided: who, and which edit, and nothing of it."""

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.models import ApprovalRequest, Edit, Person


def disclose_edit(*, person: Person, request: ApprovalRequest, edit: Edit) -> None:
    """Append the receipt; the text itself was shown live by the recorder and is kept nowhere."""
    with transaction.atomic():
        lock_families([request.branch.family_id])
        append_receipt(
            run=request.branch,
            kind="edit_disclosed",
            body={"edit": edit.digest, "person": person.uid},
            actor=Actor.person(person),
            subject=edit.digest,
        )
