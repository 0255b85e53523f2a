"""Whose word on a run's handoffs counts: its own recorder's, and of others what its workflow entitles."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from branches.models import Recorder, RecorderToken, Run, Workflow, Workspace
from branches.queries.chains import Link
from branches.queries.declarations import Writer, declaration_of, read_workflow

IMPORTER: Final = "import"
"""The runtime of the recorder that writes what was imported; no recorder that pairs can have it."""
OUTCOME_EVENTS: Final = frozenset({"outcome_verified", "outcome_failed"})
"""Handoff events that say whether the promised thing arrived."""
_WORK: Final = frozenset({"accepted", "progress", "waiting", "completed"})


@dataclass(frozen=True, slots=True)
class Voice:
    """A recorder, and what the token is called that it paired with; None is not looked up."""

    recorder: str
    token: str | None = None
    later: frozenset[str] = frozenset()
    """What the tokens are called under which it went on: they entitle it to nothing, and it held them."""

    @property
    def names(self) -> frozenset[str]:
        """What all of its tokens are called."""
        return self.later if self.token is None else self.later | {self.token}


@dataclass(frozen=True, slots=True)
class Entitled:
    """Who may say what of a run: its own recorder, and by the names of their tokens the declared writers."""

    own: Voice | None
    declared: Mapping[str, Writer]
    is_imported: bool = False

    def trusts(self, voice: Voice, event: str, agent: str | None) -> bool:
        """Return whether an event that a recorder sent for an agent counts.

        A loop's own process never confirms itself: an outcome counts only under another token, and a
        token of the same name is the same one, renewed. Whoever imports a file vouches for all of it.
        """
        is_own = self.own is not None and voice.recorder == self.own.recorder
        rule = None if voice.token is None else self.declared.get(voice.token)
        if event not in OUTCOME_EVENTS:
            return is_own or (rule is not None and agent in rule.agents)
        if is_own:
            return self.is_imported
        same_token = self.own is not None and bool(voice.names & self.own.names)
        return rule is not None and rule.outcomes and not same_token


@dataclass(frozen=True, slots=True)
class Writers:
    """The rule of one run, with what the tokens of those who wrote are called."""

    entitled: Entitled
    tokens: Mapping[str, str]
    later: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def _voice(self, recorder: str) -> Voice:
        return Voice(recorder, self.tokens.get(recorder), self.later.get(recorder, frozenset()))

    def trusts(self, item: Link) -> bool:
        """Return whether a handoff receipt counts."""
        agent = item.actor.get("name") if item.actor["type"] == "agent" else None
        return self.entitled.trusts(self._voice(item.writer), item.body["event"], agent)

    def untrusted(self, events: Sequence[Link]) -> frozenset[int]:
        """Return the rows of an operation's events that do not count.

        Who did the work does not confirm it either, whatever their token was declared for.
        """
        counted = [item for item in events if self.trusts(item)]
        own = self.entitled.own  # its outcomes count only where it imported them, with the work
        by = {item.writer for item in counted if item.body["event"] in _WORK}
        workers = frozenset[str]().union(*(self._voice(each).names for each in by))
        wrong = {
            item.id
            for item in counted
            if item.body["event"] in OUTCOME_EVENTS
            and self._voice(item.writer).names & workers
            and (own is None or item.writer != own.recorder)
        }
        return frozenset({item.id for item in events} - {item.id for item in counted} | wrong)


def writers_of(run: Run, found: Iterable[Link]) -> Writers:
    """Return whose word counts of a run's receipts."""
    declaration = declaration_of(run)
    if declaration is None or not declaration.writers:
        return writers_by(run, {})
    own = [] if run.recorder is None else [run.recorder.uid]
    heard = {*own, *(item.writer for item in found)}
    return writers_by(run, token_names(heard), _later_names(heard))


def writers_by(
    run: Run, tokens: Mapping[str, str], later: Mapping[str, frozenset[str]] | None = None
) -> Writers:
    """Return the same where the names of the tokens are known, by recorder.

    Without `later` only what is said of work is judged: of outcomes it counts under what a recorder went on.
    """
    declaration, recorder, later = declaration_of(run), run.recorder, later or {}
    own = None
    if recorder is not None:
        own = Voice(recorder.uid, tokens.get(recorder.uid), later.get(recorder.uid, frozenset()))
    declared = declaration.writers if declaration else {}
    is_imported = recorder is not None and recorder.runtime == IMPORTER
    return Writers(Entitled(own, declared, is_imported), tokens, later)


def token_names(writers: Iterable[str]) -> dict[str, str]:
    """Return what the tokens of recorders are called, by recorder."""
    return dict(Recorder.objects.filter(uid__in=list(writers)).values_list("uid", "token__name"))


def _later_names(writers: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return what the tokens are called under which recorders went on, by recorder."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    rows = RecorderToken.objects.filter(recorder__uid__in=list(writers))
    for recorder, name in rows.values_list("recorder__uid", "token__name"):
        found[recorder].add(name)
    return {recorder: frozenset(names) for recorder, names in found.items()}


def confirms_outcomes(workspace: Workspace, name: str) -> bool:
    """Return whether a workflow here lets tokens of a name confirm outcomes.

    Whatever its version: each run is judged by its own, however many were published since.
    """
    rows = Workflow.objects.filter(workspace=workspace, declaration__contains=json.dumps(name))
    found = (read_workflow(row).writers.get(name) for row in rows)
    return any(each is not None and each.outcomes for each in found)


def counted_writers(run: Run) -> list[str]:
    """Return the recorders whose word on a run may count: its own, and those that its workflow declares."""
    declaration = declaration_of(run)
    names = list(declaration.writers) if declaration else []
    found = (
        list(
            Recorder.objects.filter(workspace_id=run.workspace_id, token__name__in=names).values_list(
                "uid", flat=True
            )
        )
        if names
        else []
    )
    return found if run.recorder is None else [run.recorder.uid, *found]
