"""Keeps what somebody wrote for their workspace: sealed, beside the record, which holds its digest alone."""

from branches.commands.refusal import Refused
from branches.models import Person, Run, WorkspaceNote
from branches.queries.clock import now
from branches.queries.notes import seal_note
from branches.queries.secrets import workspace_key

MAX_BYTES = 4000


def write_note(*, person: Person, run: Run, domain: str, text: str) -> str | None:
    """Return the digest by which receipts name the note, or None for an empty one.

    Written in the caller's transaction.
    """
    written = text.strip()
    if not written:
        return None
    if len(written.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise Refused(rule=f"max_bytes:{MAX_BYTES}", field="note")
    digest = workspace_key(run.workspace).digest(domain, written)
    WorkspaceNote.objects.create(
        run=run, digest=digest, sealed=seal_note(run.workspace, written), person=person, at=now()
    )
    return digest
