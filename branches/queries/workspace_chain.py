"""A workspace's own chain as an auditor reads it: newest first, in words, in windows; and its exact bytes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from branches.evidence.chain import ChainFault, ChainVerdict, verify_chain
from branches.evidence.kinds.workspace import WORKSPACE
from branches.models import ApiToken, Group, Person, Workspace, WorkspaceReceipt
from branches.queries.clock import parse

WINDOW: Final = 60
KINDS: Final = (*WORKSPACE, "refused")
# Where what a receipt is about stands in its body; the subject of an adopted policy is its change.
_SUBJECTS: Final = {
    "person_joined": "person",
    "person_left": "person",
    "role_granted": "person",
    "role_withdrawn": "person",
    "signed_in": "person",
    "group_made": "group",
    "group_joined": "person",
    "group_left": "person",
    "person_invited": "invitation",
    "invitation_ended": "invitation",
    "change_proposed": "change",
    "change_decided": "change",
    "change_ended": "change",
    "token_issued": "token",
    "token_revoked": "token",
    "recorder_paired": "recorder",
    "recorded": "run",
    "refused": "subject",
}


@dataclass(frozen=True, slots=True)
class ChainRow:
    """One receipt in words: who did what to whom."""

    seq: int
    kind: str
    at: datetime
    actor: str
    facts: tuple[tuple[str, str], ...]
    digest: str


@dataclass(frozen=True, slots=True)
class ChainPage:
    """A window of the chain, with where older ones begin."""

    rows: tuple[ChainRow, ...]
    kind: str
    kinds: tuple[str, ...]
    older: int | None
    count: int
    head: str | None


def chain_page(workspace: Workspace, *, kind: str = "", before: int | None = None) -> ChainPage:
    """Return the newest receipts (of a kind, before a seq)."""
    every = WorkspaceReceipt.objects.filter(workspace=workspace)
    newest = every.order_by("-seq").values_list("seq", "digest").first() or (0, None)
    rows = every.filter(kind=kind) if kind in KINDS else every
    if before is not None:
        rows = rows.filter(seq__lt=before)
    found = [json.loads(text) for text in rows.order_by("-seq").values_list("body", flat=True)[: WINDOW + 1]]
    names = _names(found[:WINDOW])
    return ChainPage(
        rows=tuple(_row(receipt, names) for receipt in found[:WINDOW]),
        kind=kind if kind in KINDS else "",
        kinds=tuple(sorted(set(every.values_list("kind", flat=True).distinct()))),
        older=found[WINDOW - 1]["seq"] if len(found) > WINDOW else None,
        count=newest[0],
        head=newest[1],
    )


def _row(receipt: Mapping[str, Any], names: Mapping[str, str]) -> ChainRow:
    facts = [(name, _fact(value, names)) for name, value in receipt["body"].items() if value is not None]
    return ChainRow(
        seq=receipt["seq"],
        kind=receipt["kind"],
        at=parse(receipt["recorded_at"]),
        actor=names.get(receipt["actor"]["id"], receipt["actor"]["id"]),
        facts=tuple(facts),
        digest=receipt["digest"],
    )


def _fact(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(str(each) for each in value) or "none"
    return names.get(str(value), str(value))


def _names(receipts: list[dict[str, Any]]) -> dict[str, str]:
    """Return the names of the people, groups and tokens that receipts name by their ids."""
    mentioned = {each["actor"]["id"] for each in receipts}
    mentioned |= {value for each in receipts for value in each["body"].values() if isinstance(value, str)}
    found = dict(Person.objects.filter(uid__in=mentioned).values_list("uid", "username"))
    found |= dict(Group.objects.filter(uid__in=mentioned).values_list("uid", "name"))
    found |= dict(ApiToken.objects.filter(uid__in=mentioned).values_list("uid", "name"))
    return found | {uid: "the operator" for uid in mentioned if uid.startswith("ws_")}


def exported_chain(workspace: Workspace, *, from_seq: int = 1) -> Iterator[bytes]:
    """Yield a workspace's receipts as NDJSON lines, exact bytes."""
    rows = WorkspaceReceipt.objects.filter(workspace=workspace, seq__gte=from_seq).order_by("seq")
    for text in rows.values_list("body", flat=True).iterator(chunk_size=2000):
        yield text.encode() + b"\n"


def verify_workspace(workspace: Workspace) -> ChainVerdict:
    """Recompute a workspace's whole chain from its exact bytes; its columns have to be those of the bytes."""
    differing: list[int] = []
    verdict = verify_chain(_exact(workspace, differing), expect_first_prev=None, run=workspace.uid)
    if differing and (verdict.ok or differing[0] < (verdict.broken_seq or 0)):
        place = differing[0]
        rows = WorkspaceReceipt.objects.filter(workspace=workspace, seq=place - 1)
        before = rows.values_list("digest", flat=True).first()
        return ChainVerdict(False, place - 1, before, place, ChainFault.COLUMNS_DIFFER)
    return verdict


def _exact(workspace: Workspace, differing: list[int]) -> Iterator[bytes]:
    columns = ("seq", "event_id", "writer", "kind", "digest", "subject")
    rows = WorkspaceReceipt.objects.filter(workspace=workspace).order_by("seq").values_list(*columns, "body")
    for place, (*found, text) in enumerate(rows.iterator(chunk_size=2000), 1):
        yield text.encode()
        if not differing and not _is_of(text, found):
            differing.append(place)


def _is_of(text: str, found: list[Any]) -> bool:
    with suppress(ValueError, TypeError, KeyError):
        receipt = json.loads(text)
        kind = receipt["kind"]
        sealed = [receipt["seq"], receipt["event_id"], receipt["writer"], kind, receipt["digest"]]
        if kind in _SUBJECTS:
            return found == [*sealed, receipt["body"][_SUBJECTS[kind]]]
        return found[:-1] == sealed
    return False


def workspaces_to_verify(uid: str | None) -> list[Workspace]:
    """Return one workspace by its id (or none), or every one."""
    rows = Workspace.objects.order_by("id")
    return list(rows if uid is None else rows.filter(uid=uid))
