"""What became of effects in each branch: as landed, reverted, repeated, reused or skipped, by tool."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from branches.queries.branch_facts import BranchView
from branches.queries.chains import Link, links
from branches.queries.compare_cells import Cell
from branches.queries.ledger import EFFECT_KINDS, EffectLine
from branches.rules.branch_facts import EffectDecision, EffectStatus

_STANDING: Final = {
    EffectStatus.RECONCILED: "as landed",
    EffectStatus.REVERTED: "reverted",
    EffectStatus.PENDING: "pending",
}
_UNSENT: Final = {"effect_reused": "answer reused", "effect_held": "held", "effect_skipped": "skipped"}


def effect_cells(views: list[BranchView]) -> list[dict[str, Cell]]:
    """Return, per branch, a cell for each tool: what stands from before, and what the branch itself did."""
    own = links([view.branch.pk for view in views], EFFECT_KINDS)
    return [_column(view, [item for item in own if item.run_id == view.branch.pk]) for view in views]


def _column(view: BranchView, own: list[Link]) -> dict[str, Cell]:
    before = [line for line in view.effects if _was_before(view, line)]
    standing: dict[str, Counter[str]] = {}
    for line in before:
        standing.setdefault(_label(line.tool, line.destination), Counter())[_standing(line)] += 1
    done = _done(own, before)
    labels = standing.keys() | done.keys()
    return {label: _cell(standing.get(label, Counter()), done.get(label, Counter())) for label in labels}


def _was_before(view: BranchView, line: EffectLine) -> bool:
    """Return whether a sealed branch met this effect at all, or a sibling made it later."""
    return view.redemption is None or line.calls[0].recorded_at <= view.redemption.at


def _standing(line: EffectLine) -> str:
    if line.status is EffectStatus.IRREVERSIBLE:
        if line.decision is None:
            return "undecided"
        return "to repeat" if line.decision is EffectDecision.REPEAT else "as landed"
    return _STANDING[line.status]


def _done(own: Iterable[Link], before: list[EffectLine]) -> dict[str, Counter[str]]:
    labels = {line.operation_key: _label(line.tool, line.destination) for line in before}
    known = set(labels)
    done: dict[str, Counter[str]] = {}
    for item in own:
        key = item.body["operation_key"]
        if item.kind == "effect_intended" and item.body["effect_class"] != "read":
            labels.setdefault(key, _label(item.body["tool"], item.body["destination"]))
            word = "repeated" if key in known else "new"
        elif item.kind in _UNSENT:
            word = _UNSENT[item.kind]
        else:
            continue
        done.setdefault(labels.get(key, "unlisted tool"), Counter())[word] += 1
    return done


def _cell(standing: Counter[str], done: Counter[str]) -> Cell:
    text = ", ".join(f"{count} {word}" for word, count in sorted(standing.items()))
    note = ", ".join(f"{count} {word}" for word, count in sorted(done.items()))
    return Cell(text or note, note=f"here: {note}" if text and note else "", diff="repeated" in done)


def _label(tool: str, destination: str | None) -> str:
    return f"{tool} at {destination}" if destination else tool
