"""Whose word on a run's handoffs counts: its own recorder's, and of others what its workflow entitles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from branches.models import Recorder, Run
from branches.queries.chains import Link
from branches.queries.declarations import Writer, declaration_of

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
        same_token = self.own is not None and voice.token == self.own.token
        return rule is not None and rule.outcomes and not same_token


@dataclass(frozen=True, slots=True)
class Writers:
    """The rule of one run, with what the tokens of those who wrote are called."""

    entitled: Entitled
    tokens: Mapping[str, str]

    def trusts(self, item: Link) -> bool:
        """Return whether a handoff receipt counts."""
        agent = item.actor.get("name") if item.actor["type"] == "agent" else None
        voice = Voice(item.writer, self.tokens.get(item.writer))
        return self.entitled.trusts(voice, item.body["event"], agent)

    def untrusted(self, events: Sequence[Link]) -> frozenset[int]:
        """Return the rows of an operation's events that do not count.

        Who did the work does not confirm it either, whatever their token was declared for.
        """
        counted = [item for item in events if self.trusts(item)]
        own = self.entitled.own  # its outcomes count only where it imported them, with the work
        workers = {self.tokens.get(item.writer) for item in counted if item.body["event"] in _WORK} - {None}
        wrong = {
            item.id
            for item in counted
            if item.body["event"] in OUTCOME_EVENTS
            and self.tokens.get(item.writer) in workers
            and (own is None or item.writer != own.recorder)
        }
        return frozenset({item.id for item in events} - {item.id for item in counted} | wrong)


def writers_of(run: Run, found: Iterable[Link]) -> Writers:
    """Return whose word counts of a run's receipts."""
    declaration = declaration_of(run)
    if declaration is None or not declaration.writers:
        return writers_by(run, {})
    own = [] if run.recorder is None else [run.recorder.uid]
    return writers_by(run, token_names({*own, *(item.writer for item in found)}))


def writers_by(run: Run, tokens: Mapping[str, str]) -> Writers:
    """Return the same where the names of the tokens are known, by recorder."""
    declaration, recorder = declaration_of(run), run.recorder
    own = None if recorder is None else Voice(recorder.uid, tokens.get(recorder.uid))
    declared = declaration.writers if declaration else {}
    is_imported = recorder is not None and recorder.runtime == IMPORTER
    return Writers(Entitled(own, declared, is_imported), tokens)


def token_names(writers: Iterable[str]) -> dict[str, str]:
    """Return what the tokens of recorders are called, by recorder."""
    return dict(Recorder.objects.filter(uid__in=list(writers)).values_list("uid", "token__name"))


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
