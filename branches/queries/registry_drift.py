"""How a run's or branch's tool registries changed, and what the tools' annotations say they do."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from branches.evidence import tool_classes
from branches.evidence.drift import changes, part_ref, parts_in
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.evidence.names import cover_name
from branches.models import ForkPoint, Receipt, Run
from branches.queries.chains import Link, latest, link
from branches.queries.declarations import declaration_of
from branches.queries.evidence_rows import Change, part_names
from branches.queries.secrets import workspace_key

PROBE: Final = "mcp_tools"
MOST_CHECKPOINTS: Final = 1_000
_IMPORTED: Final = "mcp"
# How much worse it is to have called a tool twice; of what nobody knows nothing good is known.
_BADNESS: Final = {"read": 0, "reversible": 1, "unknown": 2, "irreversible": 3}


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
    is_from_fork: bool
    """Whether the checkpoint before is the one that the branch was forked from, in another run."""


@dataclass(frozen=True, slots=True)
class ToolClass:
    """What a tool of the newest registry does by its annotations, and by the workflow's own word."""

    key: str
    tool: str
    """The name where the workflow declares it, else the digest of its part."""
    said: str
    declared: str | None

    @property
    def is_belied(self) -> bool:
        """Whether the server says worse of it than the workflow declares."""
        return self.declared is not None and _BADNESS[self.said] > _BADNESS[self.declared]


@dataclass(frozen=True, slots=True)
class RegistryDrift:
    """What changed, the oldest first; `more` where only the newest checkpoints were looked at."""

    changes: tuple[RegistryChange, ...]
    compared: int
    """How many pairs of checkpoints were compared."""
    more: bool
    classes: tuple[ToolClass, ...] = ()
    """Of the newest checkpoint that recorded them, by the annotations."""


def registry_drift(run: Run) -> RegistryDrift | None:
    """Compare each checkpoint's registries with those of the last one before.

    A branch's first is compared with the checkpoint that it was forked from. None where there is no pair to
    compare and no class to show.
    """
    keys = _keys(run)
    if keys is not None and not keys:
        return None
    rows = list(Receipt.objects.filter(run=run, kind="checkpoint").order_by("-seq")[: MOST_CHECKPOINTS + 1])
    own = [link(row) for row in reversed(rows[:MOST_CHECKPOINTS])]
    more = len(rows) > MOST_CHECKPOINTS
    checkpoints = own if more else [*_forked_from(run), *own]
    names = _Names.of(run)
    found, classes, compared = [], [], 0
    for key in sorted(_every(checkpoints) if keys is None else keys):
        measured = [each for each in checkpoints if _print(each, key) is not None]
        compared += max(0, len(measured) - 1)
        found += list(_of_key(key, measured, names, run))
        classes += list(_classes(key, measured, names))
    if not compared and not classes:
        return None
    in_order = sorted(found, key=lambda each: (each.after.seq, each.key))
    return RegistryDrift(tuple(in_order), compared, more=more, classes=tuple(classes))


def _forked_from(run: Run) -> Iterator[Link]:
    """Yield the checkpoint that a branch was forked from, from whichever ancestor recorded it."""
    fork = ForkPoint.objects.filter(branch=run).first()
    at = run.parent
    while fork is not None and at is not None:
        rows = Receipt.objects.filter(run=at, kind="checkpoint", subject=fork.checkpoint)
        if (row := rows.order_by("-seq").first()) is not None:
            yield link(row)
            return
        at = at.parent


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
    declared: Mapping[str, str]
    """Tool → its effect class, as the workflow declares it."""
    class_fact: str
    """What the fact with the classes is called where no workflow declares its name."""

    @classmethod
    def of(cls, run: Run) -> "_Names":
        key: HmacKey = workspace_key(run.workspace)
        declaration = declaration_of(run)
        tools = declaration.tools if declaration else {}
        return cls(
            aspects={part_ref(key, name): name for name in part_names(PROBE)},
            tools={part_ref(key, name): name for name in tools},
            declared={name: tool.effect_class for name, tool in tools.items()},
            class_fact=cover_name(key, Declared.FACT, tool_classes.FACT),
        )


def _classes(key: str, measured: list[Link], names: _Names) -> Iterator[ToolClass]:
    """Yield the classes that the newest registry recorded, the worst first."""
    if not measured:
        return
    facts = measured[-1].body["state"][key]["facts"]
    parts = parts_in(facts).keys() - names.aspects.keys()
    number = facts.get(tool_classes.FACT, facts.get(names.class_fact))
    said = tool_classes.unpacked(number, parts)
    for part, word in sorted(said.items(), key=lambda each: (-_BADNESS[each[1]], each[0])):
        tool = names.tools.get(part)
        yield ToolClass(key, tool or part, word, None if tool is None else names.declared[tool])


def _of_key(key: str, measured: list[Link], names: _Names, run: Run) -> Iterator[RegistryChange]:
    for before, after in pairwise(measured):
        if _print(before, key) != _print(after, key):
            yield _change(key, before, after, names, is_from_fork=before.run_id != run.pk)


def _change(key: str, before: Link, after: Link, names: _Names, *, is_from_fork: bool) -> RegistryChange:
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
        is_from_fork=is_from_fork,
    )


def _tells_tools(facts: Mapping[str, Any], names: _Names) -> bool:
    """Whether the tools are among the parts, or there are none."""
    parts = parts_in(facts)
    return not parts.keys() <= names.aspects.keys() or (bool(parts) and facts.get("tools") == 0)


def _print(checkpoint: Link, key: str) -> Any:
    return checkpoint.body["state"].get(key, {}).get("fingerprint")
