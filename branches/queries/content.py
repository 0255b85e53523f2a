"""What a recorder is asked for when a person wants to read a message or a state value."""

from dataclasses import dataclass

from branches.models import ApprovalRequest, Edit, Receipt, Run, SealedEdit
from branches.queries.chains import Link, link
from branches.queries.lookups import NotHere


@dataclass(frozen=True, slots=True)
class Wanted:
    """One message, value or list of values, and who can show it; foreign names are HMACs."""

    recorder: str
    run: str
    kind: str
    """`message`, `edit`, `state` (a key's value), `values` (the list of its values) or `value` (one)."""
    subject: str
    checkpoint: str | None
    sealed: bytes | None = None
    """An edit's text, which only the recorder's own key opens: it opens it for whoever may decide."""


def edit_request(request: ApprovalRequest, edit_id: int) -> tuple[Edit, Wanted]:
    """Return an edit of a request's branch, and what to ask for to read its text; raises NotHere."""
    row = (
        SealedEdit.objects.filter(edit_id=edit_id, edit__branch=request.branch)
        .select_related("edit", "recorder")
        .first()
    )
    if row is None:
        raise NotHere("edit")
    sealed = bytes(row.ciphertext)
    return row.edit, Wanted(row.recorder.uid, request.branch.uid, "edit", row.edit.target, None, sealed)


def message_request(run: Run, seq: int) -> tuple[Link, Wanted]:
    """Return the message at a seq, and what to ask for to read it; raises NotHere."""
    item = _link_at(run, seq, "message")
    return item, Wanted(_recorder(run), run.uid, "message", str(item.subject), item.body["checkpoint"])


def state_request(run: Run, seq: int, key: str) -> tuple[Link, Wanted]:
    """Return the checkpoint at a seq, and what to ask for to read a key's value there; raises NotHere."""
    item = _link_at(run, seq, "checkpoint")
    return item, Wanted(_recorder(run), run.uid, "state", key, item.subject)


def _link_at(run: Run, seq: int, kind: str) -> Link:
    row = Receipt.objects.filter(run=run, seq=seq, kind=kind).first()
    if row is None:
        raise NotHere(kind)
    return link(row)


def _recorder(run: Run) -> str:
    if run.recorder is None:
        raise NotHere("recorder")
    return run.recorder.uid
