"""The edit page: the messages before the fork point, the keys whose values can be edited, and whom to ask."""

from dataclasses import dataclass, replace
from typing import Final

from branches.models import Recorder, Run
from branches.queries.chains import Link, latest
from branches.queries.content import Wanted
from branches.queries.declarations import declaration_of
from branches.queries.evidence_rows import shows_content
from branches.queries.fork_page import messages_before


@dataclass(frozen=True, slots=True)
class ReadOnly:
    """A runtime whose recorder declines every permit that holds an edit, and whether it shows messages."""

    runtime: str
    is_shown: bool


_READ_ONLY: Final = {
    "openai-agents": ReadOnly("the OpenAI Agents SDK", is_shown=True),
    "autogen": ReadOnly("AutoGen", is_shown=False),
}


@dataclass(frozen=True, slots=True)
class EditPage:
    """What can be read and edited on a branch, and what to ask its recorder for."""

    messages: tuple[Link, ...]
    keys: tuple[str, ...]
    """The keys whose values a recorder can show."""
    has_recorder: bool
    read_only: ReadOnly | None
    message: Link | None = None
    key: str | None = None
    wanted: Wanted | None = None
    """The chosen message; for a chosen key the list of its values."""

    @property
    def is_editable(self) -> bool:
        """Whether an edit can be recorded: that a text can be shown does not say so."""
        return self.has_recorder and self.read_only is None

    @property
    def is_readable(self) -> bool:
        """Whether a recorder can show a message."""
        return self.has_recorder and (self.read_only is None or self.read_only.is_shown)


def edit_page(branch: Run, *, message: str | None, key: str | None) -> EditPage:
    """Return what can be edited; what is not before the fork point, or not editable, is not chosen."""
    fork = branch.fork_point
    found, keys = messages_before(fork.parent, fork.seq), _shown_keys(branch)
    page = EditPage(found, keys, can_unseal(branch.recorder), read_only(branch))
    if key in keys and page.is_editable:
        return replace(page, key=key, wanted=_wanted(fork.parent_id, "values", key, fork.checkpoint))
    chosen = next((item for item in found if item.subject == message), None)
    if chosen is None or not page.is_readable:
        return page
    wanted = _wanted(chosen.run_id, "message", str(chosen.subject), fork.checkpoint)
    return replace(page, message=chosen, wanted=wanted)


def can_unseal(recorder: Recorder | None) -> bool:
    """Return whether a recorder speaks for a run: what only imported it has no key to be written to."""
    return recorder is not None and bool(recorder.box_key)


def read_only(branch: Run) -> ReadOnly | None:
    """Return the runtime of a branch where none of its recorders applies an edit; else None."""
    started = latest(branch.family_id, "run_started")
    return None if started is None else _READ_ONLY.get(started.body["runtime"]["name"])


def editable_keys(branch: Run) -> tuple[str, ...]:
    """Return the required state keys whose values a recorder can show, and replace."""
    return () if read_only(branch) else _shown_keys(branch)


def _shown_keys(branch: Run) -> tuple[str, ...]:
    declaration = declaration_of(branch)
    if declaration is None:
        return ()
    return tuple(name for name, key in declaration.state_keys.items() if shows_content(key.probe))


def _wanted(run_id: int, kind: str, subject: str, checkpoint: str) -> Wanted | None:
    run = Run.objects.select_related("recorder").get(pk=run_id)
    if run.recorder is None or not can_unseal(run.recorder):
        return None
    return Wanted(run.recorder.uid, run.uid, kind, subject, checkpoint)
