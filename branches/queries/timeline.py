"""A run's timeline: one window of its receipts, and where the next checkpoint, effect or failure lies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.models import Receipt, Run
from branches.queries.chains import Link, head, latest, link
from branches.queries.message_map import MessageMap, is_failure, message_map
from branches.queries.run_list import source_words
from branches.queries.run_stop import is_imported, run_outcome_badge, run_stop_badge
from branches.queries.words import Badge

WINDOW: Final = 60
MARKS: Final = {"checkpoint": 1, "effect": 2, "failure": 4}
_MARKED_KINDS: Final = {
    "checkpoint": ("checkpoint",),
    "effect": ("effect_intended",),
    "failure": ("effect_answered", "stopped"),
}


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One receipt of the window, in the words of the page."""

    item: Link
    what: str
    sender: str | None
    recipient: str | None
    hash: str
    mark: str

    @property
    def is_message(self) -> bool:
        return self.item.kind == "message"


@dataclass(frozen=True, slots=True)
class Window:
    """Sixty receipts from a seq on, with the ends of the run."""

    rows: list[TimelineRow]
    first: int
    last: int
    total: int

    @property
    def earlier(self) -> int | None:
        return max(1, self.first - WINDOW) if self.first > 1 else None

    @property
    def later(self) -> int | None:
        return self.last + 1 if self.last < self.total else None


@dataclass(frozen=True, slots=True)
class RunHead:
    """What a run's page says above the fold."""

    stop: Badge
    outcome: Badge
    stopped: Link | None
    checked: Link | None
    started: Link | None
    source: str
    """What it is by its runtime, for a run of no workflow."""
    map: MessageMap


def _routed(run: Run, stopped: Link | None) -> Link | None:
    return None if stopped is None else latest(run.pk, "approval_routed", stopped.event_id)


def run_head(run: Run) -> RunHead:
    """Return the stop and the outcome of a run, and its map's totals."""
    stopped = latest(run.pk, "stopped")
    checked = latest(run.pk, "outcome_checked")
    started = latest(run.pk, "run_started")
    return RunHead(
        stop=run_stop_badge(run, stopped, checked, _routed(run, stopped), started),
        outcome=run_outcome_badge(stopped, checked),
        stopped=stopped,
        checked=checked,
        started=started,
        source=source_words(started, imported=is_imported(run, started)),
        map=message_map(run.pk),
    )


def window(run: Run, at: int) -> Window:
    """Return the window that starts at a seq; three queries, whatever the run's length."""
    total, _ = head(run.pk)
    first = max(1, min(at, max(1, total - WINDOW + 1)))
    rows = Receipt.objects.filter(run=run, seq__gte=first, seq__lt=first + WINDOW).order_by("seq")
    found = [_row(link(row)) for row in rows]
    last = found[-1].item.seq if found else 0
    return Window(found, first, last, total)


def jump(run: Run, mark: str, after: int) -> int | None:
    """Return the seq of the next checkpoint, effect or failure after a seq, wrapping round once.

    The map says in which columns marks lie, so only those stretches are read, however long the run.
    """
    spans = message_map(run.pk).spans(MARKS[mark])
    later = [(max(first, after + 1), last) for first, last in spans if last > after]
    for first, last in (*later, *spans):
        found = _first_marked(run, mark, first, last)
        if found is not None:
            return found
    return None


def _first_marked(run: Run, mark: str, first: int, last: int) -> int | None:
    rows = Receipt.objects.filter(run=run, seq__gte=first, seq__lte=last, kind__in=_MARKED_KINDS[mark])
    return next((row.seq for row in rows.order_by("seq") if _mark(link(row)) == mark), None)


def _row(item: Link) -> TimelineRow:
    sender, recipient = _ends(item)
    return TimelineRow(
        item=item,
        what=_words(item),
        sender=sender,
        recipient=recipient,
        hash=short(item.body.get("content") or item.body.get("payload") or item.subject or item.digest),
        mark=_mark(item),
    )


def _ends(item: Link) -> tuple[str | None, str | None]:
    body = item.body
    if item.kind == "message":
        return body["sender"], body["recipient"]
    if item.kind == "interaction":
        return body["from"], body["to"]
    if item.kind.startswith("effect_"):
        return item.actor.get("name"), body.get("destination")
    return item.actor.get("name"), None


def _words(item: Link) -> str:
    body: Mapping[str, Any] = item.body
    match item.kind:
        case "message":
            return str(body["class"]).replace("_", " ")
        case "checkpoint":
            return f"checkpoint, step {body['step']}" if body["step"] is not None else "checkpoint"
        case "effect_intended":
            return f"calls {body['tool']}"
        case "effect_answered":
            return f"answer: {str(body['answer']).replace('_', ' ')}"
        case "interaction":
            return f"{body['kind']} edge"
        case "handoff":
            return f"handoff: {str(body['event']).replace('_', ' ')}"
        case "recording_gap":
            return f"recording gap: {body['gap']}"
        case "stopped":
            return f"stopped: {str(body['stop_cause'] or 'cause not recorded').replace('_', ' ')}"
    return item.kind.replace("_", " ")


def _mark(item: Link) -> str:
    if item.kind == "checkpoint":
        return "checkpoint"
    if is_failure(item.kind, item.body):
        return "failure"
    if item.kind == "effect_intended" and item.body["effect_class"] != "read":
        return "effect"
    return ""


def short(digest: str) -> str:
    """Return the first eight hex digits of a labelled digest, or of an id."""
    return digest.rsplit(":", 1)[-1].split("+", 1)[0][:8] if ":" in digest else digest[:12]
