"""How one loop ended, as the body of a stop receipt."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.recorder.effects import is_timeout
from debugger.recorder.gates import Hold
from debugger.recorder.openai_agents.graph import Graph
from debugger.recorder.openai_agents.watching import Step, Watch
from debugger.recorder.record import RunRecord
from debugger.recorder.stops import MOST_STEPS, MOST_TOOLS, StopAsked, fitting

_CLAIMS: Final = frozenset({"natural_finish", "done_tool"})
_MOST_CONDITIONS: Final = 16
_REFUSED: Final = frozenset({"model_refusal", "invalid_final_output"})


@dataclass(frozen=True, slots=True)
class Ended:
    """What is known at the boundary."""

    error: BaseException | None = None
    interruptions: Sequence[Any] = ()
    has_output: bool = False
    is_timed_out: bool = False

    def cause(self, watch: Watch) -> str | None:
        """Return the closed word; an error handler's usual-looking output hides none of them."""
        if self.is_timed_out:
            return "timeout"
        if watch.record.held is not None or isinstance(self.error, Hold):
            return "approval_requested"
        if self.error is not None:
            return _cause_of(self.error, watch)
        if self.interruptions:
            return "approval_requested"
        if "step_limit" in watch.faults or "max_turns" in watch.masked:
            return "step_limit"
        if watch.masked & _REFUSED:
            return "provider_error"
        if watch.was_cut:
            return "output_limit"
        return "natural_finish" if self.has_output else None


def _cause_of(error: BaseException, watch: Watch) -> str:
    from agents import MaxTurnsExceeded
    from agents.exceptions import MCPToolCancellationError, ToolTimeoutError

    if isinstance(error, StopAsked) or not isinstance(error, Exception):
        return "user_abort"
    if isinstance(error, MaxTurnsExceeded):
        return "step_limit"
    own = watch.record.failures().values()
    if isinstance(error, (ToolTimeoutError, MCPToolCancellationError)) or "tool_error" in watch.faults:
        return "tool_error"
    if any(error is each or error.__cause__ is each for each in own):
        return "tool_error"
    return "timeout" if is_timeout(error) else "provider_error"


def done_tool_of(watch: Watch, agent: Any) -> tuple[str | None, str | None]:
    """Return the cause and the tool where the result of a tool was the last output.

    Of several tools called at once, which one it was is known only where one name can be meant.
    """
    called = list(dict.fromkeys(watch.steps[-1].tools)) if watch.steps else []
    if not called:
        return "natural_finish", None
    rule = agent.tool_use_behavior
    if isinstance(rule, dict):
        called = [each for each in called if each in rule.get("stop_at_tool_names", ())]
    elif rule == "stop_on_first_tool":
        called = called[:1]
    return ("done_tool", called[0]) if len(called) == 1 else (None, None)


def conditions(graph: Graph, max_turns: int | None, timeout_s: float | None) -> list[dict[str, Any]]:
    """Return what may end the loop, the SDK's own default limit like any other."""
    found: list[dict[str, Any]] = [] if max_turns is None else [{"type": "step_count", "n": max_turns}]
    found.append({"type": "loop_finished"})
    if timeout_s is not None:
        found.append({"type": "deadline", "ms": int(timeout_s * 1000)})
    names = (
        name
        for agent in graph.agents.values()
        if isinstance(agent.tool_use_behavior, dict)
        for name in agent.tool_use_behavior.get("stop_at_tool_names", ())
    )
    found += [{"type": "tool_call", "tool": name} for name in dict.fromkeys(names)]
    return found[:_MOST_CONDITIONS]


def stop_body(
    ended: Ended,
    watch: Watch,
    agent: Any,
    policy: list[dict[str, Any]],
    approval: Mapping[str, Any] | None,
    *,
    progress: bool,
) -> dict[str, Any]:
    """Return the stop receipt's body, with as many of the last steps as it can hold."""
    record = watch.record
    cause, done_tool = ended.cause(watch), None
    if cause == "natural_finish":
        cause, done_tool = done_tool_of(watch, agent)
    body: dict[str, Any] = {
        "policy": {"version": record.declaration.version, "conditions": policy},
        "stop_cause": cause,
        "steps": _steps(watch.steps),
        "tool_failed": _has_failed(record, cause),
        "useful_progress": progress,
        "approval": dict(approval or {}) if cause == "approval_requested" else None,
        "loop": "claimed" if cause in _CLAIMS else "ended",
    }
    if done_tool is not None:
        body["done_tool"] = done_tool
    body["steps"] = fitting(body, record)
    if cause == "step_limit" and len(body["steps"]) < len(watch.steps):
        body["stop_cause"] = None  # fewer steps do not bear the limit out
    return body


def _steps(steps: Iterable[Step]) -> list[dict[str, Any]]:
    return [{"tools": each.tools[:MOST_TOOLS], "tokens": each.tokens} for each in list(steps)[-MOST_STEPS:]]


def _has_failed(record: RunRecord, cause: str | None) -> bool:
    """Whether a tool failed that did not succeed later; what the loop's own end cut short does not count."""
    cut_short = cause in {"timeout", "user_abort"}
    return any(isinstance(error, Exception) or not cut_short for error in record.failures().values())
