"""Wraps tools: the intent is on the disk before the call, the answer after it, a permit is obeyed."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.domains import REF
from debugger.recorder.answers import NOTHING, encode
from debugger.recorder.gates import Do, Hold, Ruling
from debugger.recorder.operations import Identified, Place, identify
from debugger.recorder.operations import here as place_here

if TYPE_CHECKING:
    from debugger.recorder import Recorder
    from debugger.recorder.record import RunRecord

_TIMEOUT_NAMES: Final = ("Timeout", "TimeoutError", "TimeoutException", "ReadTimeout", "ConnectTimeout")
# A destination that answers so has looked at the request and will not do it; 409 and the like leave it open.
_REFUSING: Final = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})


class DestinationRefused(Exception):
    """A tool raises this when its destination said no and nothing happened there."""


class OutsideRun(RuntimeError):
    """A wrapped tool was called where no recorded run, or more than one, could be meant: nothing was sent."""


@dataclass(slots=True)
class Operation:
    """The operation a tool is working on; `key` is stable over retries and forks: send it along."""

    key: str
    ref: str | None = None
    version: str | int | None = None

    def acknowledged(self, *, ref: str | None = None, version: str | int | None = None) -> None:
        """Say under which reference and version the destination keeps the result; the ref leaves as HMAC."""
        self.ref, self.version = ref, version


_operation: ContextVar[Operation | None] = ContextVar("branchgate_operation", default=None)


def current_operation() -> Operation:
    """Return the operation of the wrapped tool that runs now. Raises OutsideRun elsewhere."""
    operation = _operation.get()
    if operation is None:
        raise OutsideRun("no recorded tool is running here")
    return operation


@dataclass(slots=True)
class Wrapped:
    """What is known of a wrapped tool: its name, how its arguments are read, what stands in when skipped."""

    recorder: "Recorder"
    tool: str
    arguments: Callable[..., dict[str, Any]]
    on_skip: Any
    locks: dict[str, threading.RLock] = field(default_factory=dict)
    guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def has_on_skip(self) -> bool:
        """Whether something stands in for the answer of a skipped call that was never recorded."""
        return self.on_skip is not None

    def lock(self, operation_key: str) -> threading.RLock:
        """Return the lock of one operation: equal calls at once are one operation, done once."""
        with self.guard:
            return self.locks.setdefault(operation_key, threading.RLock())

    def place(self) -> Place | None:
        """Return where in the runtime the code stands, or None where that cannot be told."""
        return place_here()

    def begin(self, run: "RunRecord", args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> "Begun":
        """Identify a call and rule on it. Raises Hold."""
        run.refuse_when_halted()
        place = self.place()
        rule = run.declaration.tool(self.tool)
        call = identify(
            self.tool,
            rule,
            self.arguments(*args, **kwargs),
            key=run.key,
            root=run.root,
            path="" if place is None else place.path,
        )
        ordinal = run.ordinal(call.base, place)
        operation_key = call.operation_key(run.key, run.root, ordinal)
        return Begun(self, run, call, operation_key, None if place is None else place.checkpoint)


@dataclass(slots=True)
class Begun:
    """A call that was identified and not yet ruled on."""

    wrapped: Wrapped
    run: "RunRecord"
    call: Identified
    operation_key: str
    checkpoint: str | None

    def ruling(self) -> Ruling:
        """Return what becomes of the call; what only reads needs no gate."""
        if self.call.rule.effect_class == "read":
            return Ruling(Do.SEND, self.operation_key)
        return self.run.gate.rule(self.call, self.operation_key)

    def answer_unsent(self, ruling: Ruling, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Record a call that is not sent and return what the agent gets. Raises Hold."""
        payload = self.call.payload
        recorded = self.run.answers.value(ruling.operation_key, payload)
        if recorded is NOTHING:
            recorded = self._stand_in(args, kwargs)
        if ruling.do is Do.HOLD or recorded is NOTHING:
            self.run.hold(ruling.operation_key, payload)
            raise Hold(ruling.operation_key)
        kind, decision = ("effect_skipped", "skip") if ruling.do is Do.SKIP else ("effect_reused", None)
        body = {"operation_key": ruling.operation_key, "payload": payload, "decision": decision}
        self.run.emit(kind, body, durable=True)
        self.run.tool_returned(self.call.tool, useful=False)
        return recorded

    def _stand_in(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        on_skip = self.wrapped.on_skip
        if on_skip is None:
            return NOTHING
        return on_skip(*args, **kwargs) if callable(on_skip) else on_skip

    def intend(self, operation_key: str) -> None:
        """Put the intent on the disk. Raises OSError: then the tool must not be called."""
        call, run = self.call, self.run
        at = time.time()
        entry = {
            "t": "call",
            "op": operation_key,
            "base": call.base,
            "tool": call.tool,
            "payload": call.payload if call.comparable else None,
            "checkpoint": self.checkpoint,
            "run": run.run,
            "at": at,
        }
        run.answers.add(entry)
        body = {
            "operation_key": operation_key,
            # Calls from a raw thread are only counted, in whatever order they come.
            "key_strength": "weak" if self.checkpoint is None else call.strength,
            "checkpoint": run.checkpoint_ref(self.checkpoint),
            "destination": call.rule.destination,
            "tool": call.tool,
            "effect_class": call.rule.effect_class,
            "payload": call.payload,
        }
        run.emit("effect_intended", body, durable=True, local=entry)

    def answered(self, operation: Operation, answer: str, value: Any = None) -> None:
        """Record what came back; a failure to record leaves the operation pending, which is safe."""
        run = self.run
        kept = encode(value) if answer == "acknowledged" else None
        body = {
            "operation_key": operation.key,
            "answer": answer,
            "destination_ref": None if operation.ref is None else run.key.digest(REF, operation.ref),
            "destination_version": operation.version,
        }
        try:
            entry = {"t": "answer", "op": operation.key, "run": run.run, "answer": answer, "value": kept}
            run.answers.add(entry)
            run.emit("effect_answered", body)
        except OSError:
            run.recorder.problems.add("answer_not_recorded")
        if answer == "acknowledged":
            run.tool_returned(self.call.tool, useful=True)
            if operation.ref is not None:
                run.progress("artifact")


@dataclass(slots=True)
class Sent:
    """What a call gave back."""

    value: Any = None


@contextmanager
def sending(begun: Begun, operation_key: str) -> Iterator[Sent]:
    """Write the intent, let the call happen, write what came back."""
    begun.intend(operation_key)
    operation, sent = Operation(operation_key), Sent()
    token = _operation.set(operation)
    try:
        yield sent
    except BaseException as error:
        begun.answered(operation, _answer_of(error))
        if not _bubbles_up(error):
            begun.run.tool_failed(begun.call.tool, error)
        raise
    finally:
        _operation.reset(token)
    begun.answered(operation, "acknowledged", sent.value)


def _answer_of(error: BaseException) -> str:
    """Return the word for an error: only a destination's own no is `refused`; all else leaves it open."""
    if isinstance(error, DestinationRefused):
        return "refused"
    if not isinstance(error, Exception) or is_timeout(error) or _bubbles_up(error):
        return "no_answer"
    status = getattr(getattr(error, "response", None), "status_code", None)
    return "refused" if status in _REFUSING else "failed"


def _bubbles_up(error: BaseException) -> bool:
    """Whether the runtime uses this exception to pause or to route: no failure of the tool."""
    return any(each.__name__ == "GraphBubbleUp" for each in type(error).__mro__)


def is_timeout(error: BaseException) -> bool:
    """Whether an error says that time ran out, whichever library it is from."""
    return any(each.__name__ in _TIMEOUT_NAMES for each in type(error).__mro__)
