"""Resumes a branch from a saved RunState: checked, redeemed, loaded, hashed again, and started once."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agents import RunState

from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.run_states import Context, Kind, Saved
from branches.evidence.signing import PermitClaims
from debugger.recorder import attempts, configuration, crash
from debugger.recorder.checks import Blocked, check_operations, result_of
from debugger.recorder.gates import Hold
from debugger.recorder.journal import Journal, Step
from debugger.recorder.openai_agents import pins, turns
from debugger.recorder.openai_agents.checks import SCHEMA
from debugger.recorder.openai_agents.graph import Graph, graph_of
from debugger.recorder.openai_agents.opening import attach, with_trace
from debugger.recorder.openai_agents.routes import Routes
from debugger.recorder.openai_agents.runs import AgentsRun, Decide, Options
from debugger.recorder.openai_agents.states import FOLDER, MEMORY_PROBE, StateFolder, to_json
from debugger.recorder.record import RunRecord
from debugger.recorder.recorder import Recorder
from debugger.recorder.stops import check_seconds

_ON_SERVER: Final = ("conversation_id", "previous_response_id", "auto_previous_response_id")


@dataclass(frozen=True, slots=True)
class Means:
    """What a branch runs with beside its agents; `decide` answers the calls that its state waits with."""

    run_config: Any = None
    context: Callable[[], Any] | None = None
    decide: Decide | None = None
    options: Options = field(default_factory=Options)


class Branch(attempts.Attempt[Saved]):
    """One attempt at one permit, on one set of agents."""

    def __init__(
        self,
        recorder: Recorder,
        graph: Graph,
        claims: PermitClaims,
        means: Means,
        is_stopped: Callable[[str], bool],
    ) -> None:
        super().__init__(recorder, claims, is_stopped)
        self._graph = graph
        self._means = means
        self._bound: dict[str, Any] = claims.bound
        self._folder = StateFolder(recorder.home / FOLDER)
        self._config = with_trace(means.run_config, self.trace)
        self._loaded: Any = None

    @property
    def trace(self) -> str:
        """The branch's own trace: a resume would else go on in its parent's, and siblings look alike."""
        return "trace_" + hashlib.sha256(f"branchgate/trace/v1\0{self.attempt}".encode()).hexdigest()[:32]

    def _check(self, *, is_redeemed: bool) -> Saved:
        bound, declaration = self._bound, self._recorder.declaration
        if (bound["workflow"], bound["workflow_version"]) != (declaration.name, declaration.version):
            raise Blocked("workflow_differs")
        self._check_agents()
        if bound["edits"]:
            raise Blocked("edits_unsupported")
        thread, saved = self._find()
        self._check_saved(saved)
        if not is_redeemed:
            for each in self._compare(thread, saved.checkpoint).values():
                if each["result"] != "matched":
                    raise Blocked(f"state_{each['result']}")
        check_operations(self._recorder, bound)
        return saved

    def _check_agents(self) -> None:
        """Refuse agents other than those that were pinned, or with a tool that goes past the recorder.

        The SDK itself takes a state into agents with other instructions and swapped tools, and says nothing.
        """
        bound, recorder = self._bound, self._recorder
        if bound["topology"] is None or not self._graph.is_whole:
            raise Blocked("topology_unknown")
        own = pins.parts_of(recorder, self._graph, self._config)
        if own["routing"] is None:
            raise Blocked("topology_unknown")
        if bound["topology"] != own["routing"]:
            raise Blocked("topology_differs")
        rule = configuration.difference(bound.get("configuration_parts"), bound["configuration"], own)
        if rule is not None:
            raise Blocked(rule)
        if not pins.is_full(recorder, self._graph):
            raise Blocked("tool_unwrapped")

    def _find(self) -> tuple[str, Saved]:
        bound, key = self._bound, self._recorder.identity.key
        reference = bound["external_ref"]
        if reference is None or bound["parent"].startswith("br_"):
            reference = key.digest(THREAD, bound["parent"])  # a branch's folder is called after it
        found = self._folder.find(key, reference, bound["checkpoint"])
        if not found:
            raise Blocked("checkpoint_absent")
        return found[0]

    def _check_saved(self, saved: Saved) -> None:
        """Refuse a state that cannot be gone on from, or only together with something outside it."""
        state = saved.state
        if state.get("$schemaVersion") != SCHEMA:
            raise Blocked("state_version_unknown")
        if saved.kind is Kind.ENDED:
            raise Blocked("nothing_left")  # the SDK would ask the model once more
        if saved.agent != self._graph.first.name:
            raise Blocked("topology_differs")
        if any(state.get(name) for name in _ON_SERVER):
            raise Blocked("conversation_on_server")
        if state.get("sandbox") is not None:
            raise Blocked("sandbox_unsupported")
        if saved.context is Context.LEFT and self._means.context is None:
            raise Blocked("context_absent")
        if _is_sticky(state):
            raise Blocked("approval_for_calls_to_come")

    def _compare(self, thread: str, checkpoint: str) -> dict[str, dict[str, Any]]:
        """Measure the pinned keys that can be measured here; the memory is the saved state itself."""
        recorder, key = self._recorder, self._recorder.identity.key
        pinned: dict[str, str | None] = self._bound["state"]
        refs = key.digest(THREAD, thread), key.digest(CHECKPOINT, checkpoint)
        rules = recorder.declaration.state_keys
        others = [name for name in pinned if name not in rules or rules[name].probe != MEMORY_PROBE]
        found = {
            name: (each.fingerprint, each.reachable)
            for name, each in recorder.state.measure(*refs, others, run=self._claims.branch).items()
        }
        for name in pinned.keys() - set(others):
            prints = {saved.fingerprint(key) for _, saved in self._folder.find(key, *refs)}
            found[name] = (prints.pop() if len(prints) == 1 else None, True)
        return {
            name: {"fingerprint": own, "result": result_of(own, pinned[name], is_reachable=reachable)}
            for name, (own, reachable) in found.items()
        }

    def _load(self, steps: Journal, source: Saved) -> bool:
        """Put a copy in the branch's own folder and load that; returns whether it loads as it was saved."""
        self._folder.save(self.thread, source)
        steps.note(Step.COPIED)
        crash.here("after_copy")
        key = self._recorder.identity.key
        copies = self._folder.find(
            key, key.digest(THREAD, self.thread), key.digest(CHECKPOINT, source.checkpoint)
        )
        steps.note(Step.EDITED)
        crash.here("after_edit")
        return bool(copies) and self._loads_as(copies[0][1], source.fingerprint(key))

    def _loads_as(self, copy: Saved, fingerprint: str) -> bool:
        key = self._recorder.identity.key
        if copy.fingerprint(key) != fingerprint:
            return False
        if copy.kind is Kind.START:
            return True
        # A context that was left out is made anew for the run: here only the rest is compared.
        override: dict[str, Any] | None = {} if copy.context is Context.LEFT else None
        first = self._graph.first
        try:
            loaded = asyncio.run(RunState.from_json(first, dict(copy.state), context_override=override))
            written, _ = to_json(loaded)
        except Exception:  # noqa: BLE001 - whatever the SDK finds wrong with a state, it is not restored
            self._recorder.problems.add("state_unloadable")
            return False
        if override is not None:
            kept = {name: copy.state["context"][name] for name in ("context", "context_meta")}
            written["context"] = {**written["context"], **kept}
        return copy.with_state(written).fingerprint(key) == fingerprint

    def _restored_state(self, source: Saved, *, is_whole: bool) -> dict[str, dict[str, Any]]:
        state = self._compare(self.thread, source.checkpoint)
        if not is_whole:
            for name, rule in self._recorder.declaration.state_keys.items():
                if rule.probe == MEMORY_PROBE:
                    state[name] = {"fingerprint": None, "result": "not_restored"}
        return state

    def _prepare(self, record: RunRecord, source: Saved) -> Callable[[], str]:
        recorder = self._recorder
        run = AgentsRun(
            recorder,
            self._graph,
            record,
            trace=self.trace,
            thread=self.thread,
            run_config=self._config,
            still_full=lambda: pins.is_still_full(recorder, self._graph),
            may_go_on=self._go_on,
        )
        recorder.answers.add({"t": "run", "run": record.run, "thread": self.thread, "root": record.root})

        def go() -> str:
            try:
                asyncio.run(self._go_from(run, source))
            except (Hold, Exception):  # noqa: BLE001 - recorded as what stopped the run; the recorder goes on
                recorder.problems.add(run.stop_cause or "unknown")
            return run.stop_cause or "unknown"

        return go

    async def _go_from(self, run: AgentsRun, source: Saved) -> None:
        means = self._means
        context = None if means.context is None else means.context()
        if source.kind is Kind.START:
            given = source.state["original_input"]
            held = source.state["context"]["context"] if context is None else context
            await run.go_from(source, given, held, means.options)
            return
        loaded = await RunState.from_json(self._graph.first, dict(source.state), context_override=context)
        if means.decide is not None:
            turns.decided(loaded, means.decide)
        await run.go_from(source, loaded, None, means.options)


def resume(
    recorder: Recorder,
    agent: Any,
    envelope: Mapping[str, Any],
    *,
    run_config: Any = None,
    context: Callable[[], Any] | None = None,
    decide: Decide | None = None,
    is_stopped: Callable[[str], bool] = lambda _: False,
    hooks: Any = None,
    error_handlers: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
    approvals: Routes | None = None,
) -> str:
    """Take one permit as far as it may go, and return the word it ended with; see `attempts.take`.

    `agent` is the one that began the run, `run_config` that of the run; `context` makes the program's context
    anew; `decide` answers the calls that the state waits with, each once. The limit of turns is the state's.
    A branch never gets a session: siblings on one would read each other. Runs a loop of its own, so it is
    called from a thread that has none. Raises RuntimeUnknown, TracingOff, AgentsAmbiguous, and ValueError for
    a `timeout_s` that no receipt can carry.
    """
    check_seconds("timeout_s", timeout_s)
    attach()
    graph = graph_of(agent)
    options = Options(hooks=hooks, error_handlers=error_handlers, timeout_s=timeout_s, approvals=approvals)
    means = Means(run_config, context, decide, options)
    return attempts.take(
        recorder, envelope, lambda claims: Branch(recorder, graph, claims, means, is_stopped)
    )


def _is_sticky(state: Mapping[str, Any]) -> bool:
    """Whether a state, or that of an agent that it called, holds a yes to every call to come."""
    held = state["context"]
    kept = [held["approvals"], held.get("function_tool_approvals"), held.get("hosted_mcp_approvals")]
    return _has_sticky([*kept, state.get("last_processed_response")])


def _has_sticky(value: Any) -> bool:
    if isinstance(value, Mapping):
        is_decision = {"approved", "rejected"} <= value.keys()
        return (is_decision and value["approved"] is True) or _has_sticky(list(value.values()))
    return isinstance(value, list) and any(_has_sticky(each) for each in value)
