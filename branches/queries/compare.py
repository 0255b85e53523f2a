"""Sibling branches side by side: what each came to, what was changed, and what it did in the world."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.db.models import Count

from branches.models import Receipt, Run
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.chains import Link, latest, links
from branches.queries.compare_cells import Cell, Row
from branches.queries.compare_effects import effect_cells
from branches.queries.configuration import configuration_delta
from branches.queries.family import Family, family_of
from branches.queries.ledger import first_receipts
from branches.queries.notes import Note, note_of
from branches.queries.words import Badge, Shape, outcome_badge, permission_badge

MAX_COLUMNS: Final = 4
CLAIM: Final = Badge("claimed", "claimed", "Claimed done", Shape.DASH)


@dataclass(frozen=True, slots=True)
class Group:
    """Rows under one heading."""

    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Up to four branches of one family in columns; `sentence` says in words what tells them apart."""

    root: Run
    branches: tuple[Run, ...]
    columns: tuple[Run, ...]
    groups: tuple[Group, ...]
    sentence: str
    concluded: Link | None
    preferred: Run | None
    hypotheses: tuple[tuple[int | None, Note], ...]
    """By a branch's number, what whoever forked it wanted to find out."""
    note: Note | None


def comparison(run: Run, *, chosen: Sequence[str], only_differences: bool, here: str = "") -> Comparison:
    """Compare chosen branches of a run's family, or its resumed and newest ones; unknown ids are left out.

    `here` is a branch that is among the columns where none were chosen.
    """
    family = family_of(run)
    columns = _columns(family, chosen, here)
    views = [branch_view(branch, family=family) for branch in columns]
    concluded = latest(family.root.pk, "concluded")
    preferred = concluded.body["chosen"] if concluded else None
    return Comparison(
        root=family.root,
        branches=family.branches,
        columns=tuple(columns),
        groups=tuple(_groups(family, views, only_differences=only_differences)) if views else (),
        sentence=_sentence(views),
        concluded=concluded,
        preferred=next((branch for branch in family.branches if branch.uid == preferred), None),
        hypotheses=tuple(_hypotheses(columns)),
        note=note_of(family.root, concluded.body["note"]) if concluded else None,
    )


def _hypotheses(columns: Sequence[Run]) -> Iterator[tuple[int | None, Note]]:
    found = {each.run_id: each for each in links([branch.pk for branch in columns], ("forked",))}
    for branch in columns:
        forked = found.get(branch.pk)
        note = note_of(branch, forked.body["hypothesis"]) if forked is not None else None
        if note is not None:
            yield branch.number, note


def _columns(family: Family, chosen: Sequence[str], here: str) -> list[Run]:
    named = [branch for branch in family.branches if branch.uid in chosen]
    if named:
        return named[:MAX_COLUMNS]
    resumed = family.redemptions.keys()
    ranked = sorted(family.branches, key=lambda row: (row.uid != here, row.pk not in resumed, -row.pk))
    return sorted(ranked[:MAX_COLUMNS], key=lambda row: row.pk)


def _groups(family: Family, views: list[BranchView], *, only_differences: bool) -> Iterator[Group]:
    groups = (
        ("Status", _status(views)),
        ("What was changed", _changes(family, views)),
        ("Effects after the checkpoint", _effects(views)),
    )
    for title, rows in groups:
        shown = tuple(row for row in rows if row.differs or not only_differences)
        if shown:
            yield Group(title, shown)


def _status(views: list[BranchView]) -> Iterator[Row]:
    yield Row("Outcome at destination", tuple(Cell(badge=outcome_badge(view)) for view in views))
    yield Row("Agent’s own claim", tuple(map(_claim, views)))
    yield Row("Permission to resume", tuple(map(_permission, views)))
    yield Row("Messages, duration", tuple(_lengths(views)))


def _claim(view: BranchView) -> Cell:
    stopped = view.outcome.stopped
    if stopped is None:
        return Cell("still running" if view.redemption else "none", quiet=True)
    if stopped.body["loop"] == "claimed":
        return Cell(badge=CLAIM)
    return Cell("ended without a claim")


def _permission(view: BranchView) -> Cell:
    return Cell(badge=permission_badge(view), note="by its one redemption" if view.redemption else "")


def _lengths(views: list[BranchView]) -> Iterator[Cell]:
    rows = Receipt.objects.filter(run_id__in=[view.branch.pk for view in views], kind="message")
    counts = dict(rows.order_by().values_list("run_id").annotate(Count("pk")))
    for view in views:
        if view.redemption is None:
            yield Cell("not resumed", quiet=True)
            continue
        count = counts.get(view.branch.pk, 0)
        yield Cell(f"{count} message{'s' if count != 1 else ''}", note=_duration(view))


def _duration(view: BranchView) -> str:
    started, stopped = view.outcome.started, view.outcome.stopped
    if started is None or stopped is None:
        return "duration unknown" if started is None else "still running"
    seconds = max(0, int((stopped.recorded_at - started.recorded_at).total_seconds()))
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def _changes(family: Family, views: list[BranchView]) -> Iterator[Row]:
    yield Row("Forked from", tuple(_fork(family, view, views[0]) for view in views))
    forked = first_receipts(view.branch.pk for view in views)
    reasons = [forked[view.branch.pk].body["reason_code"] for view in views]
    yield Row("Reason", tuple(Cell(reason.replace("_", " ")) for reason in reasons))
    yield Row("Edits", tuple(map(_edits, views)))
    deltas = [{part.key: part for part in configuration_delta(view.branch, view.pin)} for view in views]
    changed = sorted({key for delta in deltas for key, part in delta.items() if part.changed})
    for key in changed:
        parts = [delta.get(key) for delta in deltas]
        yield Row(
            key,
            tuple(
                Cell(part.after or "unknown", diff=True, mono=True)
                if part is not None and part.changed
                else Cell("same as parent", quiet=True)
                for part in parts
            ),
            code=True,
        )


def _fork(family: Family, view: BranchView, first: BranchView) -> Cell:
    parent = family.runs[view.fork.parent_id]
    note = f"receipt {view.fork.seq}" + (f" of b{parent.number}" if parent.number else "")
    differs = view.fork.digest != first.fork.digest
    return Cell(view.fork.checkpoint, note=note, diff=differs, mono=True)


def _edits(view: BranchView) -> Cell:
    if not view.edits:
        return Cell("none", quiet=True)
    classes = sorted({edit.edit_class.replace("_", " ") for edit in view.edits})
    return Cell(str(len(view.edits)), note=", ".join(classes), diff=True)


def _effects(views: list[BranchView]) -> Iterator[Row]:
    found = effect_cells(views)
    for label in sorted({label for column in found for label in column}):
        yield Row(label, tuple(column.get(label, Cell("none", quiet=True)) for column in found))


def _sentence(views: list[BranchView]) -> str:
    """Return what the destinations say, branch by branch; a claim alone says nothing."""
    hues = {f"b{view.branch.number}": outcome_badge(view).hue for view in views}
    proved = [name for name, hue in hues.items() if hue == "verified"]
    denied = [name for name, hue in hues.items() if hue == "false"]
    parts = []
    if proved:
        only = "Only " if len(proved) == 1 and len(hues) > 1 else ""
        parts.append(f"{only}{_and(proved)} {'has' if len(proved) == 1 else 'have'} a destination receipt.")
    elif hues:
        parts.append("No branch has a destination receipt that holds.")
    if denied:
        parts.append(f"{_and(denied)} claimed success and the destination denies it.")
    return " ".join(parts)


def _and(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
