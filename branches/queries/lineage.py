"""The lineage drawing of a branch: its parent's line, its siblings, and where they leave it."""

from dataclasses import dataclass
from typing import Final

from branches.models import Receipt, Run
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.chains import head, links
from branches.queries.run_stop import run_outcome_badge
from branches.queries.words import NO_RECEIPT, Badge, outcome_badge, permission_badge

MAX_LANES: Final = 6
LEFT: Final = 112
PARENT_END: Final = 830
LANE_END: Final = 950
ROW: Final = 37
TOP: Final = 29
_MAX_EFFECTS: Final = 14


@dataclass(frozen=True, slots=True)
class Mark:
    """A place on the drawing with a short label."""

    x: int
    y: int
    label: str = ""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Lane:
    """One run of the drawing: the curve from its fork point, and what it came to."""

    uid: str
    label: str
    y: int
    path: str
    current: bool
    resumed: bool
    badge: Badge
    note: str
    stop_x: int

    @property
    def band_y(self) -> int:
        return self.y - 18

    @property
    def icon_y(self) -> int:
        return self.y - 10

    @property
    def text_y(self) -> int:
        return self.y + 4


@dataclass(frozen=True, slots=True)
class Lineage:
    """The drawing, in the coordinates of its view box; `said` is the same in words."""

    height: int
    parent: Lane
    lanes: tuple[Lane, ...]
    checkpoints: tuple[Mark, ...]
    effects: tuple[Mark, ...]
    effects_label: str
    said: str
    more: int


def lineage(view: BranchView) -> Lineage:
    """Return the drawing of a branch among the branches of its parent."""
    parent = view.family.runs[view.fork.parent_id]
    siblings = [run for run in view.family.branches if run.parent_id == parent.pk]
    shown = _shown(siblings, view.branch)
    total = max(1, head(parent.pk)[0])
    lanes = tuple(_lane(run, index, view, total) for index, run in enumerate(shown, 1))
    seqs = {run.pk: view.family.forks[run.pk].seq for run in shown}
    return Lineage(
        height=TOP + ROW * len(lanes) + 18,
        parent=_parent_lane(parent, view),
        lanes=lanes,
        checkpoints=_checkpoints(parent, seqs, view.fork.seq, total),
        effects=_effects(view, parent, total),
        effects_label=_effects_label(view),
        said=_said(parent, lanes),
        more=len(siblings) - len(shown),
    )


def _shown(siblings: list[Run], current: Run) -> list[Run]:
    if len(siblings) <= MAX_LANES:
        return siblings
    newest = [run for run in siblings if run.pk != current.pk][-(MAX_LANES - 1) :]
    return sorted([*newest, current], key=lambda run: run.number or 0)


def _x(seq: int, total: int) -> int:
    return LEFT + round((PARENT_END - 130 - LEFT) * seq / total)


def _lane(run: Run, index: int, view: BranchView, total: int) -> Lane:
    y = TOP + ROW * index
    x = _x(view.family.forks[run.pk].seq, total)
    is_current = run.pk == view.branch.pk
    resumed = run.pk in view.family.redemptions
    seen = view if is_current else (branch_view(run, now=view.at, family=view.family) if resumed else None)
    badge = outcome_badge(seen) if seen is not None else NO_RECEIPT
    stop_x = LANE_END if resumed else LANE_END - 110
    return Lane(
        uid=run.uid,
        label=f"b{run.number}" + (" (this)" if is_current else ""),
        y=y,
        path=f"M{x} {TOP}c24 0 18 {y - TOP} 50 {y - TOP}H{stop_x}",
        current=is_current,
        resumed=resumed,
        badge=badge,
        note=_note(seen, resumed=resumed),
        stop_x=stop_x,
    )


def _note(seen: BranchView | None, *, resumed: bool) -> str:
    if seen is not None and not resumed:
        return permission_badge(seen).words.lower()
    return "resumed" if resumed else "not resumed"


def _parent_lane(parent: Run, view: BranchView) -> Lane:
    if parent.parent_id is None:
        found = {item.kind: item for item in links([parent.pk], ("stopped", "outcome_checked"))}
        badge = run_outcome_badge(found.get("stopped"), found.get("outcome_checked"))
        label = "run"
    else:
        badge = outcome_badge(branch_view(parent, now=view.at, family=view.family))
        label = f"b{parent.number}"
    return Lane(parent.uid, label, TOP, f"M{LEFT} {TOP}H{PARENT_END}", False, True, badge, "", PARENT_END)


def _checkpoints(parent: Run, seqs: dict[int, int], own: int, total: int) -> tuple[Mark, ...]:
    steps = Receipt.objects.filter(run=parent, seq__in=set(seqs.values())).values_list("seq", flat=True)
    return tuple(Mark(_x(seq, total), TOP, f"#{seq}", strong=seq == own) for seq in sorted(steps))


def _effects(view: BranchView, parent: Run, total: int) -> tuple[Mark, ...]:
    marks = [
        (call.seq, line.blocks)
        for line in view.effects
        for call in line.calls[-1:]
        if call.run_id == parent.pk
    ]
    spaced: list[Mark] = []
    for seq, blocks in sorted(marks)[:_MAX_EFFECTS]:
        x = max(_x(seq, total) + 24, spaced[-1].x + 24 if spaced else 0)
        spaced.append(Mark(min(x, PARENT_END - 24), TOP, strong=blocks))
    return tuple(spaced)


def _effects_label(view: BranchView) -> str:
    number = len(view.effects)
    blocking = sum(1 for line in view.effects if line.blocks)
    if not number:
        return ""
    return f"{number} effect{'s' if number != 1 else ''}, {blocking} block"


def _said(parent: Run, lanes: tuple[Lane, ...]) -> str:
    parts = [f"{lane.label}: {lane.badge.words}" for lane in lanes]
    return f"{len(lanes)} branches leave run {parent.uid}. " + "; ".join(parts) + "."
