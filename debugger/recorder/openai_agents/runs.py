"""Drives a run turn by turn and records what passes: states, messages, hand-overs, effects, the stop."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.run_states import Kind, Saved
from branches.ports import StateMeasurement
from debugger.recorder.handoffs import HandsOver
from debugger.recorder.openai_agents import ends, routes, turns
from debugger.recorder.openai_agents.ends import Ended
from debugger.recorder.openai_agents.graph import Graph
from debugger.recorder.openai_agents.handovers import Handovers
from debugger.recorder.openai_agents.items import MessageLog
from debugger.recorder.openai_agents.pins import recorded_tools
from debugger.recorder.openai_agents.routes import Routes
from debugger.recorder.openai_agents.spans import PROCESSOR, check_tracing
from debugger.recorder.openai_agents.states import FOLDER, MEMORY_PROBE, StateFolder, checkpoint_id, to_json
from debugger.recorder.openai_agents.watching import Watch
from debugger.recorder.record import RunRecord
from debugger.recorder.recorder import Recorder
from debugger.recorder.stops import StopAsked, check_count, check_seconds

DEFAULT_MAX_TURNS: Final = 10
"""The SDK's own limit of turns where none is given; recorded like any other."""
_PROGRESSIVE: Final = frozenset({"answer", "handoff"})

type Decide = Callable[[Any], bool | None]
"""A person's word on a call that waits (the SDK's own item): yes, no, or none yet."""


class RunSpent(RuntimeError):
    """A run begins once, and each of its waits is answered once: what was approved is not done again."""


@dataclass(frozen=True, slots=True)
class Options:
    """What one call of a run takes beside its input."""

    max_turns: int | None = DEFAULT_MAX_TURNS
    hooks: Any = None
    error_handlers: Mapping[str, Any] | None = None
    session: Any = None
    timeout_s: float | None = None
    approvals: Routes | None = None


class AgentsRun(HandsOver):
    """One recorded run of agents; made by `record`, or for a branch."""

    def __init__(
        self,
        recorder: Recorder,
        graph: Graph,
        record: RunRecord,
        *,
        trace: str,
        thread: str,
        run_config: Any,
        still_full: Callable[[], bool],
        may_go_on: Callable[[], None] = lambda: None,
    ) -> None:
        """`still_full`: whether the recording is what its start says; asked at each turn."""
        self.record = record
        self.trace = trace
        self.thread = thread
        self.stop_cause: str | None = None
        self._recorder = recorder
        self._graph = graph
        self._run_config = run_config
        self._still_full = still_full
        self._has_fallen = False
        self._may_go_on = may_go_on
        self._folder = StateFolder(recorder.home / FOLDER)
        self._watch = Watch(record, graph, Handovers(record, trace), recorded_tools(recorder, graph))
        self._messages = MessageLog(record.key, record.run)
        self._options = Options()
        self._at: str | None = None
        self._is_begun = False
        self._waiting: Any = None
        self._turns = 0

    @property
    def run(self) -> str:
        """The run's id (`run_…`, or the branch's `br_…`)."""
        return self.record.run

    @property
    def external_ref(self) -> str:
        """The thread's id as HMAC; a run's thread is its trace."""
        return self.record.key.digest(THREAD, self.thread)

    async def start(
        self,
        input: Any,  # noqa: A002 - the SDK's own word
        *,
        context: Any = None,
        max_turns: int | None = DEFAULT_MAX_TURNS,
        hooks: Any = None,
        error_handlers: Mapping[str, Any] | None = None,
        session: Any = None,
        timeout_s: float | None = None,
        approvals: Routes | None = None,
        **conversation: Any,
    ) -> Any:
        """Run to the last output, a call that waits for a person, or a limit; return the SDK's last result.

        Each turn is a call of `Runner.run_streamed` of its own, and the state after it a checkpoint.
        `approvals` says who decides on a waiting call, by the tool's name. Raises what the SDK raises, Hold
        when a person must decide on an effect first, TracingOff, RunSpent for a run that was begun, and
        ValueError for limits that no receipt can carry. A stop that was asked for and a timeout only end it,
        without a result (`stop_cause` says why).
        """
        if self._is_begun:
            raise RunSpent("run: begun")
        check_count("max_turns", max_turns)
        check_seconds("timeout_s", timeout_s)
        self._options = Options(max_turns, hooks, error_handlers, session, timeout_s, approvals)
        check_tracing()
        self._is_begun = True
        state = turns.state_before(self._graph.first, input, context, max_turns)
        # What a session or the provider adds to the input is not in the state.
        await self._checkpoint(state, Kind.START, is_whole=session is None and not conversation)
        return await self._drive(input, context=context, **conversation)

    async def resume(self, decide: Decide, *, timeout_s: float | None = None) -> Any:
        """Answer what this run waits for and go on; returns and raises as `start` does.

        An answer counts for its one call and once: never for calls to come. Raises RunSpent for a run that
        does not wait, and ValueError where nothing was decided.
        """
        check_seconds("timeout_s", timeout_s)
        state = self._waiting
        if state is None:
            raise RunSpent("run: not_waiting")
        check_tracing()
        if not turns.decided(state, decide):
            raise ValueError("decide: nothing_decided")
        self._waiting = None
        self._options = replace(self._options, timeout_s=timeout_s)
        return await self._drive(state)

    async def go_from(self, saved: Saved, loaded: Any, context: Any, options: Options) -> Any:
        """Go on from a saved state, in a run of its own; `loaded` is its input or its RunState."""
        self._is_begun = True
        self._options = replace(options, max_turns=saved.state["max_turns"])
        self._at = saved.checkpoint
        self._messages = MessageLog(self.record.key, self.record.run, saved.messages)
        self._watch.learn(list(saved.state["model_responses"]))
        if (known := self.record.answers.passed(saved.checkpoint)) is not None:
            self._watch.handovers.resume(known.handed)
        return await self._drive(loaded, context=context)

    async def _drive(self, given: Any, **first: Any) -> Any:
        before, limit = self.record.progress_count, asyncio.timeout(self._options.timeout_s)
        ended, result = Ended(), None
        PROCESSOR.listen(self.trace, self._watch)
        with self._recorder.running(self.record):
            try:
                async with limit:
                    result = await self._take_turns(given, first)
                ended = Ended(interruptions=result.interruptions, has_output=True)
            except BaseException as error:  # noqa: BLE001 - every end is recorded; it goes on below
                ended = Ended(error=error, is_timed_out=limit.expired())
            finally:
                PROCESSOR.leave(self.trace)
            self._close(ended, result, progress=self.record.progress_count > before)
        if ended.error is not None and not (isinstance(ended.error, StopAsked) or ended.is_timed_out):
            raise ended.error
        return result

    async def _take_turns(self, given: Any, first: dict[str, Any]) -> Any:
        while True:
            self._judge()
            await asyncio.to_thread(self._may_go_on)
            self.record.refuse_when_halted()
            result = await self._turn(given, first)
            given, first, state = None, {}, result.to_state()
            kind = turns.kind_of(result, state)
            is_saved = await self._checkpoint(state, kind)
            if kind is not Kind.TURN:
                self._waiting = state if kind is Kind.WAITS and is_saved else None
                return result
            given = state

    async def _turn(self, given: Any, first: dict[str, Any]) -> Any:
        self._turns += 1
        options = self._options
        try:
            return await turns.take(
                self._graph.first,
                given,
                watch=self._watch,
                place=turns.place(self._at, self.thread, (self.run, self._turns)),
                hooks=options.hooks,
                error_handlers=options.error_handlers,
                run_config=self._run_config,
                max_turns=options.max_turns,
                session=options.session,
                **first,
            )
        finally:
            self._watch.turned()
            self.record.take_step_tools()

    async def _checkpoint(self, state: Any, kind: Kind, *, is_whole: bool = True) -> bool:
        """Save a state and write the receipts of what is new in it; returns whether it could be saved."""
        record, own, parent = self.record, checkpoint_id(), self._at
        ref = record.key.digest(CHECKPOINT, own)
        saved, news = self._saved(own, state, kind, ref)
        entry: dict[str, Any] = {
            "t": "passed", "id": own, "parent": parent, "source": "loop", "writers": {}, "run": record.run,
            "handed": self._watch.handovers.done,
        }  # fmt: skip
        record.answers.add(entry)
        # Probes ask files, programs and addresses: not on the loop that the agents run on.
        measured = await asyncio.to_thread(
            self._recorder.state.measure, self.external_ref, ref, run=record.run
        )
        for body in news:
            record.emit("message", body)
        body = {
            "checkpoint": ref,
            "parent_checkpoint": record.checkpoint_ref(parent),
            "step": None if saved is None else saved.state["current_turn"],
            "state": self._recorder.state.body({**measured, **self._memory(saved)}),
            "consistent": saved is not None and is_whole,
        }
        record.emit("checkpoint", body, local=entry)
        self._at = own
        if any(each["class"] in _PROGRESSIVE for each in news):
            record.progress("message")
        return saved is not None

    def _saved(self, own: str, state: Any, kind: Kind, ref: str) -> tuple[Saved | None, list[dict[str, Any]]]:
        """Save a state; one that the SDK cannot write down is no fork point, and says so."""
        try:
            found, context = to_json(state)
        except Exception:  # noqa: BLE001 - whatever a foreign object in it does, the run itself is good
            self._recorder.problems.add("state_not_saved")
            return None, []
        news = list(self._messages.news(found, ref))
        saved = Saved(own, kind, context, self._graph.first.name, tuple(self._messages.ids), found)
        self._folder.save(self.thread, saved)
        return saved, news

    def _memory(self, saved: Saved | None) -> dict[str, StateMeasurement]:
        rules = self._recorder.declaration.state_keys
        found = None if saved is None else saved.fingerprint(self.record.key)
        return {name: StateMeasurement(found) for name, rule in rules.items() if rule.probe == MEMORY_PROBE}

    def _close(self, ended: Ended, result: Any, *, progress: bool) -> None:
        record, agent = self.record, self._graph.first if result is None else result.last_agent
        route = routes.route_of(ended.interruptions, self._options.approvals)
        approval = routes.approval_body(route, self._token(ended))
        policy = ends.conditions(self._graph, self._options.max_turns, self._options.timeout_s)
        body = ends.stop_body(ended, self._watch, agent, policy, approval, progress=progress)
        self.stop_cause = body["stop_cause"]
        self._watch.handovers.stopped(self.stop_cause, approval["deadline"])
        record.emit("stopped", body)
        self._judge()
        if not self._has_fallen:  # else the list of effects may lack some, and must not look complete
            record.close()

    def _judge(self) -> None:
        """Look again at the agents: a tool may have come that goes past the recorder."""
        if not self._has_fallen and not self._still_full():
            self._has_fallen = True
            self._recorder.problems.add("recording_fell")

    def _token(self, ended: Ended) -> str | None:
        """Return what stands for the wait: the held operation, or the calls that the state waits with."""
        if self.record.held is not None:
            return routes.held_token(self.record.key, self.record.held)
        if self._waiting is None:
            return None
        return routes.resume_token(self.record.key, self.trace, ended.interruptions)
