"""The edit page: the messages before the fork point, the keys whose values can be edited, and whom to ask."""

from dataclasses import dataclass

from branches.models import Run
from branches.queries.chains import Link
from branches.queries.content import Wanted
from branches.queries.declarations import declaration_of
from branches.queries.evidence_rows import shows_content
from branches.queries.fork_page import messages_before


@dataclass(frozen=True, slots=True)
class EditPage:
    """What can be edited on a branch, and what to ask its recorder for."""

    messages: tuple[Link, ...]
    keys: tuple[str, ...]
    message: Link | None = None
    key: str | None = None
    wanted: Wanted | None = None
    """The chosen message; for a chosen key the list of its values."""


def edit_page(branch: Run, *, message: str | None, key: str | None) -> EditPage:
    """Return what can be edited; what is not before the fork point, or not editable, is not chosen."""
    fork = branch.fork_point
    found, keys = messages_before(fork.parent, fork.seq), editable_keys(branch)
    if key in keys:
        wanted = _wanted(fork.parent_id, "values", key, fork.checkpoint)
        return EditPage(found, keys, key=key, wanted=wanted)
    chosen = next((item for item in found if item.subject == message), None)
    if chosen is None:
        return EditPage(found, keys)
    wanted = _wanted(chosen.run_id, "message", str(chosen.subject), fork.checkpoint)
    return EditPage(found, keys, message=chosen, wanted=wanted)


def editable_keys(branch: Run) -> tuple[str, ...]:
    """Return the required state keys whose values a recorder can show, and so replace."""
    declaration = declaration_of(branch)
    if declaration is None:
        return ()
    return tuple(name for name, key in declaration.state_keys.items() if shows_content(key.probe))


def _wanted(run_id: int, kind: str, subject: str, checkpoint: str) -> Wanted | None:
    run = Run.objects.select_related("recorder").get(pk=run_id)
    return None if run.recorder is None else Wanted(run.recorder.uid, run.uid, kind, subject, checkpoint)
