"""How a run's tool registries changed between its checkpoints, as far as these recorded their parts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from branches.evidence.drift import changes, part_ref, parts_in
from branches.evidence.keys import HmacKey
from branches.models import Receipt, Run
from branches.queries.chains import Link, latest, link
from branches.queries.declarations import declaration_of
from branches.queries.evidence_rows import Change, part_names
from branches.queries.secrets import workspace_key

PROBE: Final = "mcp_tools"
MOST_CHECKPOINTS: Final = 1_000
_IMPORTED: Final = "mcp"


@dataclass(frozen=True, slots=True)
class RegistryChange:
    """One registry between two checkpoints: how many tools differ, and what of it has a name."""

    key: str
    before: Link
    after: Link
    added: int
    removed: int
    changed: int
    named: tuple[Change, ...]
    aspects: tuple[str, ...]
    is_divided: bool
    """Whether both checkpoints recorded the parts; without them it is only known that it changed."""
    counts_tools: bool
    """Whether the tools are parts of their own: of a registry with very many only the aspects are."""


@dataclass(frozen=True, slots=True)
class RegistryDrift:
    """What changed, the oldest first; `more` where only the newest checkpoints were looked at."""

    changes: tuple[RegistryChange, ...]
    compared: int
    """How many pairs of checkpoints were compared."""
    more: bool


def registry_drift(run: Run) -> RegistryDrift | None:
    """Compare each checkpoint's registries with those of the last one before; None where there is no pair."""
    keys = _keys(run)
    if keys is not None and not keys:
        return None
    rows = list(Receipt.objects.filter(run=run, kind="checkpoint").order_by("-seq")[: MOST_CHECKPOINTS + 1])
    checkpoints = [link(row) for row in reversed(rows[:MOST_CHECKPOINTS])]
    names = _Names.of(run)
    found, compared = [], 0
    for key in sorted(_every(checkpoints) if keys is None else keys):
        measured = [each for each in checkpoints if _print(each, key) is not None]
        compared += max(0, len(measured) - 1)
        found += list(_of_key(key, measured, names))
    if not compared:
        return None
    in_order = sorted(found, key=lambda each: (each.after.seq, each.key))
    return RegistryDrift(tuple(in_order), compared, more=len(rows) > MOST_CHECKPOINTS)


def _keys(run: Run) -> frozenset[str] | None:
    """Return the keys that the workflow measures with our probe; None for an imported run of nothing else."""
    declaration = declaration_of(run)
    if declaration is not None:
        return frozenset(name for name, key in declaration.state_keys.items() if key.probe == PROBE)
    started = latest(run.pk, "run_started")
    is_imported = started is not None and started.body["runtime"]["name"] == _IMPORTED
    return None if is_imported else frozenset()


def _every(checkpoints: Iterable[Link]) -> frozenset[str]:
    return frozenset(name for each in checkpoints for name in each.body["state"])


@dataclass(frozen=True, slots=True)
class _Names:
    """What parts may be called: the probe's own aspects, and the tools that the workflow declares."""

    aspects: Mapping[str, str]
    tools: Mapping[str, str]

    @classmethod
    def of(cls, run: Run) -> "_Names":
        key: HmacKey = workspace_key(run.workspace)
        declaration = declaration_of(run)
        tools = declaration.tools if declaration else ()
        aspects = {part_ref(key, name): name for name in part_names(PROBE)}
        return cls(aspects, {part_ref(key, name): name for name in tools})


def _of_key(key: str, measured: list[Link], names: _Names) -> Iterator[RegistryChange]:
    for before, after in pairwise(measured):
        if _print(before, key) != _print(after, key):
            yield _change(key, before, after, names)


def _change(key: str, before: Link, after: Link, names: _Names) -> RegistryChange:
    facts = [each.body["state"][key]["facts"] for each in (before, after)]
    old, new = map(parts_in, facts)
    found = changes(old, new)
    tools = [each for each in found if each["part"] not in names.aspects]
    counted = Counter(each["change"] for each in tools)
    return RegistryChange(
        key=key,
        before=before,
        after=after,
        added=counted["added"],
        removed=counted["removed"],
        changed=counted["changed"],
        named=tuple(
            Change(names.tools[each["part"]], each["change"], is_named=True)
            for each in tools
            if each["part"] in names.tools
        ),
        aspects=tuple(names.aspects[each["part"]] for each in found if each["part"] in names.aspects),
        is_divided=bool(old and new),
        counts_tools=all(_tells_tools(each, names) for each in facts),
    )


def _tells_tools(facts: Mapping[str, Any], names: _Names) -> bool:
    """Whether the tools are among the parts, or there are none."""
    parts = parts_in(facts)
    return not parts.keys() <= names.aspects.keys() or (bool(parts) and facts.get("tools") == 0)


def _print(checkpoint: Link, key: str) -> Any:
    return checkpoint.body["state"].get(key, {}).get("fingerprint")
