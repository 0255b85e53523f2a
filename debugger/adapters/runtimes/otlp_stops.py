"""Why a run's outermost agent or workflow ended, by where its errors and interrupts happened."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import FINISH, TASK, Failure
from debugger.adapters.runtimes.otlp_calls import Step, awaits_person, returned, steps_of
from debugger.adapters.runtimes.otlp_gaps import may_hide_an_end
from debugger.adapters.runtimes.otlp_roles import Role, tool_name
from debugger.adapters.runtimes.otlp_spans import Status
from debugger.adapters.runtimes.otlp_tree import Forest, Placed, SpanKey


class Cause(StrEnum):
    """The causes of the stop rules that a span can show."""

    NATURAL_FINISH = "natural_finish"
    STEP_LIMIT = "step_limit"
    OUTPUT_LIMIT = "output_limit"
    USER_ABORT = "user_abort"
    APPROVAL_REQUESTED = "approval_requested"
    TOOL_ERROR = "tool_error"
    PROVIDER_ERROR = "provider_error"
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of one outermost agent or workflow."""

    top: Placed
    cause: Cause | None
    """None where it ended well only as far as the spans go, and parts of them are not there."""
    steps: Sequence[Step]
    tool_failed: bool
    useful_progress: bool
    task: str | None
    """The runtime's id of the task that waits, by which it is resumed."""

    @property
    def waits(self) -> bool:
        """Whether it stopped for a person."""
        return self.cause is Cause.APPROVAL_REQUESTED

    @property
    def claimed(self) -> bool:
        """Whether the loop itself says that it is done: only a status of its own says so."""
        return self.cause is Cause.NATURAL_FINISH and self.top.span.status is Status.OK


_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens"})
_FILTERED: Final = frozenset({"content_filter", "content-filter", "safety", "refusal"})


def stops_of(forest: Forest) -> Iterator[Stop]:
    """Yield the stops; of one that has not ended, or hangs below a span that is not here, nothing is said."""
    loops: dict[SpanKey, list[Placed]] = defaultdict(list)
    for each in forest.placed.values():
        if each.top is not None:
            loops[each.top.key].append(each)
    for key, members in loops.items():
        top = forest.placed[key]
        if top.whole and top.span.end:
            yield _stop(top, members)


def _stop(top: Placed, members: Sequence[Placed]) -> Stop:
    waiting = _waiting(members)
    cause: Cause | None = _cause(top, members, waits=bool(waiting))
    if cause is Cause.NATURAL_FINISH and may_hide_an_end(members):
        cause = None
    calls = [each for each in members if each.role is Role.TOOL and not awaits_person(each)]
    cut_short = cause in {Cause.TIMEOUT, Cause.USER_ABORT}
    return Stop(
        top=top,
        cause=cause,
        steps=steps_of(members),
        tool_failed=_tool_failed(calls, cut_short=cut_short),
        useful_progress=any(returned(each.span) for each in calls),
        task=_task(waiting[0]) if waiting and cause is Cause.APPROVAL_REQUESTED else None,
    )


def _waiting(members: Sequence[Placed]) -> list[Placed]:
    """Return what waits for a person still; a task that ran again and did not ask is answered."""
    if not any(each.span.waits or (each.role is Role.TOOL and awaits_person(each)) for each in members):
        return []
    newest: dict[tuple[str, str], Placed] = {}
    for each in members:
        task = each.span.text(TASK)
        newest[(task, each.span.name) if task is not None else each.key] = each
    return [each for each in newest.values() if awaits_person(each)]


def _task(waiting: Placed) -> str | None:
    """Return the id of the outermost graph's task: its namespace is ``node:task|inner:task``."""
    return (waiting.span.text(TASK) or "").partition("|")[0].partition(":")[2] or None


def _cause(top: Placed, members: Sequence[Placed], *, waits: bool) -> Cause:
    if top.span.failed:
        return _error(top)
    if waits:
        return Cause.APPROVAL_REQUESTED
    if any(Failure.STEP_LIMIT in each.span.failures and not each.in_tool for each in members):
        return Cause.STEP_LIMIT
    own = [each for each in members if not each.in_tool]
    if top.span.status is Status.UNSET and (broken := _broken(own)) is not None:
        return _error(broken)
    return _finish([each for each in own if each.role is Role.CHAT])


def _error(top: Placed) -> Cause:
    """Return the cause of an error, by the innermost span that shows it."""
    origin, seen = _origin(top), top.span.failures
    inner = origin.span.failures
    if Failure.STEP_LIMIT in seen | inner:
        return Cause.STEP_LIMIT
    if Failure.CANCELLED in inner and Failure.TIMEOUT in seen:
        return Cause.TIMEOUT
    if Failure.CANCELLED in inner and Failure.CANCELLED in seen:
        return Cause.USER_ABORT
    if origin.role is Role.TOOL:
        return Cause.TOOL_ERROR
    return (
        Cause.TIMEOUT if Failure.TIMEOUT in inner and origin.role is not Role.CHAT else Cause.PROVIDER_ERROR
    )


def _origin(top: Placed) -> Placed:
    at = top
    while failed := [each for each in at.children if each.span.failed and each.run == top.run]:
        at = max(failed, key=lambda each: (each.span.end, each.key))
    return at


def _broken(own: Sequence[Placed]) -> Placed | None:
    """Return the error below a loop that says nothing of itself, where nobody above or after made it good."""
    succeeded = {
        each.agent: each.span.start for each in own if each.role is Role.AGENT and not each.span.failed
    }
    failed = [
        each
        for each in own
        if each.role is Role.AGENT
        and each.span.failed
        and (each.parent is None or each.parent.agent is None)
        and each.span.start >= succeeded.get(each.agent, 0)
    ]
    if failed:
        return max(failed, key=lambda each: (each.span.end, each.key))
    chats = [each for each in own if each.role is Role.CHAT]
    return chats[-1] if chats and chats[-1].span.failed else None


def _finish(chats: Sequence[Placed]) -> Cause:
    """Return what the last model call finished with, where that was the end of it."""
    if not chats:
        return Cause.NATURAL_FINISH
    last = max(chats, key=lambda each: (each.span.end, each.key)).span
    said = last.attributes.get(FINISH) or last.text("gen_ai.completion.0.finish_reason") or ()
    reasons = {each.lower() for each in (said if type(said) is tuple else (str(said),))}
    if reasons & _CUT:
        return Cause.OUTPUT_LIMIT
    return Cause.PROVIDER_ERROR if reasons & _FILTERED else Cause.NATURAL_FINISH


def _tool_failed(calls: Sequence[Placed], *, cut_short: bool) -> bool:
    """Whether some call failed and none of the same tool succeeded later; one cut short does not count."""
    failed: dict[str, int] = {}
    succeeded: dict[str, int] = {}
    for each in calls:
        name, span = tool_name(each.span), each.span
        if span.failed:
            if not (cut_short and Failure.CANCELLED in span.failures):
                failed[name] = span.start
        elif returned(span):
            succeeded[name] = span.start
    return any(start >= succeeded.get(name, 0) for name, start in failed.items())
