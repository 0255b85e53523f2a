"""The fork page: the checkpoints of a run, and what a replay from each would meet again."""

from dataclasses import dataclass
from typing import Final

from branches.models import Receipt, Run
from branches.queries.authority_words import class_reasons
from branches.queries.chains import Link, link
from branches.queries.change_class import class_of_fork
from branches.queries.clock import now
from branches.queries.declarations import Declaration, ExpectedOutcome, declaration_of
from branches.queries.evidence_rows import probe_sentences, shows_content
from branches.queries.family import family_of
from branches.queries.ledger import effects_after_checkpoint
from branches.queries.policies import policy_of
from branches.rules.change_class import ChangeClass

SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Coverage:
    """One required key at a checkpoint."""

    key: str
    captured: bool
    limits: str
    readable: bool
    """Whether a recorder can show this key's value live."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """A recorded effect that a replay from the checkpoint would do again, were it not gated."""

    seq: int
    tool: str
    destination: str | None
    effect_class: str
    operation_key: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A checkpoint one can fork from."""

    item: Link
    suggested: bool
    effects: int
    captured: int

    @property
    def checkpoint(self) -> str:
        return str(self.item.subject)


@dataclass(frozen=True, slots=True)
class ForkPage:
    """The chosen checkpoint with its coverage and effects, and the others to choose from."""

    run: Run
    chosen: Choice | None
    choices: tuple[Choice, ...]
    coverage: tuple[Coverage, ...]
    repeats: tuple[Repeat, ...]
    change_class: ChangeClass
    reasons: tuple[str, ...]
    """Which facts gave the class."""
    required: bool
    declared: ExpectedOutcome | None
    """The outcome a branch expects where the fork declares no other."""


def fork_page(run: Run, checkpoint: str | None) -> ForkPage:
    """Return the page for a checkpoint, or for the suggested one."""
    declaration = declaration_of(run)
    choices = _choices(run, declaration)
    chosen = next((item for item in choices if item.checkpoint == checkpoint), None)
    if chosen is None and checkpoint is not None:
        chosen = _choice(run, checkpoint, declaration)
    if chosen is None:
        chosen = next((item for item in choices if item.suggested), choices[0] if choices else None)
    worst = class_of_fork(family_of(run), run, declaration)
    asked = policy_of(run.workspace).of(worst.change_class, now())
    return ForkPage(
        run=run,
        chosen=chosen,
        choices=tuple(choices),
        coverage=_coverage(chosen, declaration),
        repeats=_repeats(run, chosen),
        change_class=worst.change_class,
        reasons=class_reasons(worst),
        required=bool(asked.rules) or asked.is_closed,
        declared=declaration.outcome if declaration else None,
    )


def _choices(run: Run, declaration: Declaration | None) -> list[Choice]:
    """Return the newest checkpoints, newest first; suggested is the latest before anything reached outside.

    Of those looked at, that is the newest behind which the most effects lie: an effect called from a
    checkpoint belongs after it.
    """
    rows = list(Receipt.objects.filter(run=run, kind="checkpoint").order_by("-seq")[:SHOWN])
    if not rows:
        return []
    found = [link(row) for row in rows]
    effects = _effect_seqs(run, found[-1].seq)
    counted = [(item, _after(effects, item)) for item in found if item.body["consistent"]]
    if not counted:
        return []
    required = len(declaration.state_keys) if declaration else 0
    best = _suggest(counted)
    return [
        Choice(item, item is best, number, min(required, len(item.body["state"]))) for item, number in counted
    ]


def _suggest(counted: list[tuple[Link, int]]) -> Link | None:
    """Return the newest of the checkpoints that have the most external effects after them."""
    before_all = [item for item, number in counted if number == max(n for _, n in counted)]
    return before_all[0] if before_all else None


def _effect_seqs(run: Run, from_seq: int) -> list[tuple[int, str | None]]:
    rows = Receipt.objects.filter(run=run, kind="effect_intended", seq__gt=max(0, from_seq - 1000))
    return [
        (item.seq, item.body["checkpoint"])
        for item in map(link, rows.order_by("seq")[:5000])
        if item.body["effect_class"] != "read"
    ]


def _after(effects: list[tuple[int, str | None]], point: Link) -> int:
    return sum(1 for seq, called_from in effects if seq > point.seq or called_from == point.subject)


def _choice(run: Run, checkpoint: str, declaration: Declaration | None) -> Choice | None:
    row = Receipt.objects.filter(run=run, kind="checkpoint", subject=checkpoint).order_by("-seq").first()
    if row is None:
        return None
    item = link(row)
    number = len(effects_after_checkpoint(run, checkpoint, item.seq))
    return Choice(item, False, number, len(item.body["state"]) if declaration else 0)


def _coverage(chosen: Choice | None, declaration: Declaration | None) -> tuple[Coverage, ...]:
    if chosen is None or declaration is None:
        return ()
    state = chosen.item.body["state"]
    return tuple(
        Coverage(
            name,
            captured=name in state and state[name]["fingerprint"] is not None,
            limits=probe_sentences(key.probe)[0],
            readable=shows_content(key.probe),
        )
        for name, key in declaration.state_keys.items()
    )


def _repeats(run: Run, chosen: Choice | None) -> tuple[Repeat, ...]:
    if chosen is None:
        return ()
    found = effects_after_checkpoint(run, chosen.checkpoint, chosen.item.seq)
    return tuple(
        Repeat(
            item.seq,
            item.body["tool"],
            item.body["destination"],
            item.body["effect_class"],
            str(item.subject),
        )
        for item in found[:200]
    )


def messages_before(run: Run, seq: int) -> tuple[Link, ...]:
    """Return the newest messages of a run's line up to a seq: what an edit may be about."""
    family = family_of(run)
    path = family.path(family.runs[run.pk])
    found: list[Link] = []
    bound = seq
    for step in reversed(path):
        rows = Receipt.objects.filter(run=step, kind="message", seq__lte=bound).order_by("-seq")[:SHOWN]
        found += [link(row) for row in rows]
        if len(found) >= SHOWN or step.parent_id is None:
            break
        bound = family.forks[step.pk].seq
    return tuple(found[:SHOWN])
