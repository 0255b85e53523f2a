"""What the bypass audits of a family found at its destinations that no receipt accounts for."""

from collections.abc import Iterable
from dataclasses import dataclass

from branches.evidence.domains import REF
from branches.models import Receipt, Run, Workspace
from branches.ports import ListsArrivals
from branches.queries.chains import Link, links
from branches.queries.clock import parse
from branches.queries.declarations import Declaration
from branches.queries.secrets import workspace_key
from branches.queries.targets import TargetMissing, target
from branches.registry import PluginMissing, PluginUnfit, find


@dataclass(frozen=True, slots=True)
class Unaccounted:
    """One arrival that no receipt accounted for when it was found, and the audit that found it first."""

    key: str
    """What it is called in the ledger: its id at the destination, as HMAC."""
    operation_key: str | None
    """The operation it came with: a receipt of that one in the branch's own ledger speaks for it."""
    destination: str
    audit: Link


def accounted_keys(workspace: Workspace, keys: Iterable[str]) -> frozenset[str]:
    """Return those operation keys that some run of the workspace recorded before it sent them."""
    wanted = list(keys)
    if not wanted:
        return frozenset()
    runs = Run.objects.filter(workspace=workspace)
    rows = Receipt.objects.filter(run__in=runs, subject__in=wanted, kind="effect_intended")
    return frozenset(key for key in rows.values_list("subject", flat=True) if key is not None)


@dataclass(frozen=True, slots=True)
class Audits:
    """What a family's audits come to."""

    unaccounted: tuple[Unaccounted, ...]
    more_since: int | None
    """The seq on the root's chain of the newest audit that found more than it could name, unless replaced."""


def audits_of(root: Run) -> Audits:
    """Return what the family's audits found, oldest audit first."""
    audits = links([root.pk], ("arrivals_audited",))
    found: dict[tuple[str, str], Unaccounted] = {}
    taken: set[str] = set()
    for audit in audits:
        destination = audit.body["destination"]
        for each in audit.body["unaccounted"]:
            place = (destination, each["arrival"])
            if place in found:
                continue
            # Two destinations may call two things the same.
            key = each["arrival"]
            if key in taken:
                key = workspace_key(root.workspace).digest(REF, f"{destination}\0{key}")
            taken.add(key)
            found[place] = Unaccounted(key, each["operation_key"], destination, audit)
    unnamed = [audit.seq for audit in audits if audit.body["more"] and not _is_replaced(audit, audits)]
    return Audits(tuple(found.values()), max(unnamed, default=None))


def _is_replaced(audit: Link, audits: Iterable[Link]) -> bool:
    """Return whether a later audit of the same destination looked as far back and saw no fewer arrivals."""
    return any(
        other.id > audit.id
        and other.body["destination"] == audit.body["destination"]
        and parse(other.body["since"]) <= parse(audit.body["since"])
        and other.body["arrived"] >= audit.body["arrived"]
        for other in audits
    )


def listing_destinations(workspace: Workspace, declaration: Declaration | None) -> tuple[str, ...]:
    """Return the workflow's destinations that can say everything that arrived there."""
    if declaration is None:
        return ()
    rules = declaration.destinations.items()
    return tuple(name for name, rule in rules if _can_list(workspace, rule.query, rule.target))


def _can_list(workspace: Workspace, query: str, place: str) -> bool:
    try:
        found = find("destinations", query)
        return isinstance(found, ListsArrivals) and found.lists(target(workspace, place))
    except (PluginMissing, PluginUnfit, TargetMissing):
        return False
