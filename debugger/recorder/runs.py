"""Drives a graph step by step and records what passes: checkpoints, messages, edges, effects, the stop."""

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.domains import CHECKPOINT, THREAD
from debugger.recorder.edges import EdgeLog
from debugger.recorder.gates import Hold
from debugger.recorder.graph_handoffs import GraphHandoffs, triggers_of
from debugger.recorder.handoffs import HandsOver
from debugger.recorder.messages import MessageLog, class_of, found_in
from debugger.recorder.record import RunRecord
from debugger.recorder.stops import StepLimitReached, StopAsked, StopLog
from debugger.recorder.stores import Store, config_of

if TYPE_CHECKING:
    from debugger.recorder import Recorder

_DEFAULT_LIMIT: Final = 10_007
_PROGRESSIVE: Final = frozenset({"answer", "handoff"})


class Run(HandsOver):
    """One recorded run of a graph on one thread; made by `Recorder.start_run`, or for a branch."""

    def __init__(
        self,
        recorder: "Recorder",
        graph: Any,
        record: RunRecord,
        thread: str,
        *,
        may_go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.record = record
        self.thread = thread
        self.stop_cause: str | None = None
        self._recorder = recorder
        self._graph = graph
        self._store = Store(graph)
        self._may_go_on = may_go_on
        self._messages = MessageLog(record.key, record.declaration.agents)
        self._edges = EdgeLog(record.declaration.agents)
        self._handoffs = GraphHandoffs(record, triggers_of(graph))
        self._passed: set[str] = set()
        self._rest: Any = None
        self.limit = record.declaration.step_limit or _DEFAULT_LIMIT

    @property
    def run(self) -> str:
        """The run's id (`run_…`, or the branch's `br_…`)."""
        return self.record.run

    @property
    def external_ref(self) -> str:
        """The thread's id as HMAC."""
        return self.record.key.digest(THREAD, self.thread)

    def invoke(self, input: Any, context: Any = None) -> Any:  # noqa: A002 - LangGraph's own word
        """Run the graph to its end, to an interrupt or to its limit, and return the last values.

        Always with durability `sync`: otherwise effects happen before the checkpoint they came from.
        Raises what the graph raises, and Hold when a person must decide on an effect first; a stop that
        was asked for, and the step limit, only end the run (`stop_cause` says so).
        """
        stops = StopLog(self.limit)
        before = self.record.progress_count
        outcome = _Outcome()
        with self._recorder.running(self.record):
            try:
                self._drive(input, context, stops, outcome)
            except BaseException as error:  # noqa: BLE001 - every end is recorded; it goes on below
                outcome.error = error
            self._close(stops, outcome, progress=self.record.progress_count > before)
        if outcome.error is not None and not isinstance(outcome.error, (StopAsked, StepLimitReached)):
            raise outcome.error
        return outcome.values

    def interaction(self, source: str, receiver: str, kind: str, status: str = "ok") -> None:
        """Record an edge that the graph's own structure does not show."""
        body = {"from": source, "to": receiver, "kind": kind, "status": status}
        self.record.emit("interaction", {**body, "contract_version": self.record.contract_version})

    def learn(self, values: Any, checkpoint: str | None = None) -> None:
        """Take what a state holds as seen; a checkpoint given is not reported again."""
        self._messages.learn(values)
        if checkpoint is not None:
            self._passed.add(checkpoint)
            if (known := self.record.answers.passed(checkpoint)) is not None:
                self._edges.resume(known.writers)
                self._handoffs.resume(known.handed)

    def _drive(self, input_: Any, context: Any, stops: StopLog, outcome: "_Outcome") -> None:
        # Our own count ends a run at the declared number of steps; the runtime's is only a second fence.
        config = {**config_of(self.thread), "recursion_limit": self.limit + 5}
        step = _Step()
        stream = self._graph.stream(
            input_,
            config,
            context=context,
            stream_mode=["checkpoints", "tasks", "values"],
            durability="sync",
        )
        with closing(stream):
            for mode, chunk in stream:
                if mode == "values":
                    outcome.values = chunk
                elif mode == "tasks":
                    self._task(chunk, step, stops)
                else:
                    self._checkpoint(chunk, step, stops, outcome)
                    step = _Step()

    def _task(self, task: Mapping[str, Any], step: "_Step", stops: StopLog) -> None:
        if "triggers" in task:
            step.ran = True
            self._edges.began(task)
            self._handoffs.began(task["id"], task["name"], self._edges.sources(task["id"]))
            return
        stops.interrupts.extend(task.get("interrupts") or ())
        for _, messages in found_in(task.get("result") or {}):
            step.wrote.update({str(message.id): task["name"] for message in messages})
        for edge in self._edges.ended(task):
            kind = self.record.declaration.edge_kind(edge.source, edge.receiver)
            self.interaction(edge.source, edge.receiver, kind or "unnamed", edge.status)
        self._handoffs.ended(task)

    def _checkpoint(
        self, chunk: Mapping[str, Any], step: "_Step", stops: StopLog, outcome: "_Outcome"
    ) -> None:
        own = chunk["config"]["configurable"]["checkpoint_id"]
        following = list(chunk["next"])
        outcome.pending = bool(following)
        if own not in self._passed:
            self._passed.add(own)
            news = self._report(chunk, own, step, following)
            if step.ran:
                stops.stepped(self.record.take_step_tools(), news)
        if following:
            if len(stops.steps) >= self.limit:
                raise StepLimitReached("steps: limit")
            self._may_go_on()
            self.record.refuse_when_halted()

    def _report(self, chunk: Mapping[str, Any], own: str, step: "_Step", following: list[str]) -> list[Any]:
        """Write the receipts of a checkpoint that is new, and return its new messages."""
        record, metadata = self.record, chunk["metadata"]
        parent = (chunk.get("parent_config") or {}).get("configurable", {}).get("checkpoint_id")
        source = str(metadata.get("source", "loop"))
        if source != "loop":
            self._store.await_row(self.thread, own)
        if step.ran:
            self._handoffs.step_ended()
        if parent and step.ran:
            self._edges.stepped(self._store.writes(self.thread, parent, self._edges.tasks))
        writers = {name: sorted(agents) for name, agents in self._edges.writers.items()}
        entry = {
            "t": "passed", "id": own, "parent": parent, "source": source, "writers": writers, "run": self.run,
            "handed": self._handoffs.done,
        }  # fmt: skip
        record.answers.add(entry)
        checkpoint = record.key.digest(CHECKPOINT, own)
        state = self._recorder.state
        measured = state.body(state.measure(self.external_ref, checkpoint, run=self.run))
        news = []
        # Before the checkpoint: what it holds lies before a fork that is made there.
        for message_body, message in self._messages.news(chunk["values"], step.wrote, checkpoint, following):
            record.emit("message", message_body)
            news.append(message)
        body = {
            "checkpoint": checkpoint,
            "parent_checkpoint": record.checkpoint_ref(parent),
            "step": metadata.get("step"),
            "state": measured,
            "consistent": True,
        }
        record.emit("checkpoint", body, local=entry)
        if step.ran:
            self._handoffs.stepped(following, self._edges.writers)
        if any(class_of(message) in _PROGRESSIVE for message in news):
            record.progress("message")
        self._note_change(chunk["values"])
        return news

    def _note_change(self, values: Any) -> None:
        """Count a change of what is no message as movement, when the workflow does."""
        talk = {channel for channel, _ in found_in(values)}
        members = values.items() if isinstance(values, dict) else [("__root__", values)]
        rest = {name: value for name, value in members if name not in talk}
        if self._rest is not None and rest != self._rest:
            self.record.progress("state_change")
        self._rest = rest

    def _close(self, stops: StopLog, outcome: "_Outcome", *, progress: bool) -> None:
        record = self.record
        if tools := record.take_step_tools():  # a step that was cut short still called them
            stops.stepped(tools, ())
        if isinstance(outcome.error, Hold) and record.held is None:
            record.held = outcome.error.operation_key
        self._handoffs.closed()
        self.stop_cause = stops.cause(outcome.error, pending=outcome.pending, record=record)
        record.emit("stopped", stops.body(self.stop_cause, record, progress=progress))
        record.close()


class _Step:
    """What happened since the last checkpoint."""

    def __init__(self) -> None:
        self.ran = False
        self.wrote: dict[str, str] = {}


class _Outcome:
    """How a drive of the graph ended."""

    def __init__(self) -> None:
        self.values: Any = None
        self.pending = False
        self.error: BaseException | None = None
