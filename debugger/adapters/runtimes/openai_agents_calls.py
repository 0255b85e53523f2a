"""Which calls of functions reached their tool, and what came back.

A call that waits for a person leaves a clean span with no output, exactly as one whose result was empty. What
tells them apart is what came after: the loop went on, the run hooks fired, or the call outlived its turn.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum, auto

from debugger.adapters.runtimes.openai_agents_files import Boundary
from debugger.adapters.runtimes.openai_agents_spans import Fault, Output, Span
from debugger.adapters.runtimes.openai_agents_trace import TraceView


class Result(StrEnum):
    """What came back from a call, in the receipts' words; OPEN where nothing says it."""

    ACKNOWLEDGED = auto()
    FAILED = auto()
    NO_ANSWER = auto()
    OPEN = auto()
    NOT_MADE = auto()
    """It waited for a person, or a person said no: its tool was never reached."""

    @property
    def is_answer(self) -> bool:
        return self in (Result.ACKNOWLEDGED, Result.FAILED, Result.NO_ANSWER)


class Calls:
    """The result of every call of one trace, by the span's id."""

    def __init__(self, view: TraceView, boundaries: Iterable[Boundary], pending: Iterable[str]) -> None:
        self._view = view
        self._pending = Counter(pending)
        self._hooks = dict(self._hooked(boundaries))
        self.results = {each.id: self._result(each) for each in reversed(view.functions())}

    def of(self, calls: Iterable[Span]) -> Iterator[tuple[str, Result]]:
        """Yield (tool, result) of some calls."""
        return ((each.name, self.results[each.id]) for each in calls)

    def _hooked(self, boundaries: Iterable[Boundary]) -> Iterator[tuple[str, tuple[bool, bool]]]:
        """Yield, for each call, whether the hooks say of all such calls that they began, and came back."""
        for boundary in boundaries:
            own = [
                (each.id, (self._view.agent_of(each) or "", each.name))
                for loop in self._view.loops
                if loop.task.id in boundary.tasks
                for each in loop.functions
            ]
            counts = Counter(which for _, which in own)
            began = Counter((agent, tool) for agent, tool, _ in boundary.evidence.started)
            returned = Counter(boundary.evidence.returned)
            for span, which in own:
                yield span, (began[which] >= counts[which], returned[which] >= counts[which])

    def _result(self, call: Span) -> Result:
        if call.fault == Fault.REJECTED:
            return Result.NOT_MADE
        if call.output == Output.TIMED_OUT:
            return Result.NO_ANSWER
        if call.fault is not None or call.output == Output.FAILED:
            return Result.FAILED
        began, returned = self._hooks.get(call.id, (False, False))
        if call.output == Output.RETURNED or self._view.went_on(call) or returned:
            return Result.ACKNOWLEDGED
        if began or self._view.outlived(call):
            return Result.OPEN
        if self._pending[call.name]:
            self._pending[call.name] -= 1
            return Result.NOT_MADE
        # With its texts hidden nothing speaks for a call that waits, and one that was made must be asked for.
        return Result.OPEN if call.payload is None else Result.NOT_MADE


def without_span(view: TraceView, boundary: Boundary) -> Iterator[tuple[str, str, str]]:
    """Yield (agent, tool, id) of each call that began, by the hooks, and whose span did not come.

    Where just one span is missing, the id is that span's: it is the same call when the span comes late.
    """
    known = Counter(
        (view.agent_of(each) or "", each.name)
        for loop in view.loops
        if loop.task.id in boundary.tasks
        for each in loop.functions
        if each.fault != Fault.REJECTED
    )
    missing: list[tuple[str, str, str]] = []
    for agent, tool, call in boundary.evidence.started:
        if known[agent, tool]:
            known[agent, tool] -= 1
        else:
            missing.append((agent, tool, call))
    have = {each.id for each in view.spans}
    lost = [span for span in dict.fromkeys(boundary.begun) if span not in have]
    for number, (agent, tool, call) in enumerate(missing):
        is_sure = len(missing) == len(lost) == 1
        yield agent, tool, lost[0] if is_sure else f"hook\0{number}\0{call}"
