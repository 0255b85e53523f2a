"""Notes of a workspace, opened for its people: what lies in the database is sealed."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from nacl.exceptions import CryptoError
from nacl.secret import SecretBox

from branches.evidence import keys
from branches.models import Run, Workspace, WorkspaceNote


@dataclass(frozen=True, slots=True)
class Note:
    """What somebody wrote, and when; `text` is None where its key is another one."""

    text: str | None
    by: str
    at: datetime


def _box(workspace: Workspace) -> SecretBox:
    return SecretBox(keys.derive_key(settings.BRANCHGATE_MASTER_KEY, f"note {workspace.uid}"))


def seal_note(workspace: Workspace, text: str) -> bytes:
    """Return a note as it lies in the database."""
    return bytes(_box(workspace).encrypt(text.encode("utf-8", "replace")))


def note_of(run: Run, digest: str | None) -> Note | None:
    """Return the note of a run that a receipt names, or None where there is none any more."""
    if digest is None:
        return None
    row = (
        WorkspaceNote.objects.filter(run=run, digest=digest).select_related("person").order_by("-id").first()
    )
    if row is None:
        return None
    try:
        text = _box(run.workspace).decrypt(bytes(row.sealed)).decode()
    except CryptoError:
        text = None
    return Note(text, row.person.get_username(), row.at)
