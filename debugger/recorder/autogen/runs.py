"""Records the tasks of one team: messages, edges, hand-overs, effects, checkpoints at rest, and each stop."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from branches.evidence.autogen_talk import Fact, Talk
from branches.evidence.domains import CHECKPOINT, REF, THREAD
from debugger.recorder.autogen.dumps import conditions, handoff_tools, participants
from debugger.recorder.autogen.ends import Ended, body_of
from debugger.recorder.autogen.handovers import Handovers
from debugger.recorder.autogen.hearing import said_of
from debugger.recorder.autogen.memory import measured
from debugger.recorder.autogen.pump import Alarm, Pump
from debugger.recorder.handoffs import HandsOver
from debugger.recorder.record import RunRecord, now_text
from debugger.recorder.recorder import Recorder
from debugger.recorder.stops import check_seconds, in_utc

SETTLE_S: Final = 5.0
_STOPPED: Final[Mapping[Alarm, str]] = {Alarm.TIMEOUT: "timeout", Alarm.CANCELLED: "user_abort"}
_PROGRESSIVE: Final = frozenset({"answer", "handoff"})


class TeamSpent(RuntimeError):
    """The team did not come to rest after it was cancelled: make a new object, and load its state there."""


@dataclass(frozen=True, slots=True)
class Approval:
    """Who answers a team that hands over to a person, and until when; the owner is a declared name."""

    owner: str | None = None
    deadline: datetime | None = None


class TeamRun(HandsOver):
    """One recorded run of a team; made by `record`. A run may have several tasks, one after the other."""

    def __init__(
        self,
        recorder: Recorder,
        team: Any,
        record: RunRecord,
        thread: str,
        *,
        still_full: Callable[[], bool],
        settle_s: float = SETTLE_S,
    ) -> None:
        """`still_full`: whether the recording is what its start says; asked at each message."""
        self.record = record
        self.thread = thread
        self.stop_cause: str | None = None
        self._recorder = recorder
        self._team = team
        self._still_full = still_full
        self._has_fallen = False
        self._settle_s = settle_s
        self._is_spent = False
        self._checkpoint: str | None = None
        self._checkpoints = 0
        agents = participants(team)
        self._handovers = Handovers(record)
        self._talk = Talk(
            record.key,
            record.run,
            frozenset(str(each.name) for each in agents),
            handoff_tools(agents),
            edge_kind=self._edge_kind,
        )

    @property
    def run(self) -> str:
        """The run's id (`run_…`)."""
        return self.record.run

    @property
    def external_ref(self) -> str:
        """The thread's id as HMAC."""
        return self.record.key.digest(THREAD, self.thread)

    async def run_task(
        self,
        task: Any = None,
        *,
        timeout_s: float | None = None,
        cancellation_token: Any = None,
        approval: Approval | None = None,
    ) -> Any:
        """Run one task to its end and return the library's result, None where it gave none. See `stream`."""
        found = None
        async with aclosing(
            self.stream(task, timeout_s=timeout_s, cancellation_token=cancellation_token, approval=approval)
        ) as messages:
            async for message in messages:
                found = message
        return found if hasattr(found, "stop_reason") else None

    async def stream(
        self,
        task: Any = None,
        *,
        timeout_s: float | None = None,
        cancellation_token: Any = None,
        approval: Approval | None = None,
    ) -> AsyncGenerator[Any]:
        """Yield what `team.run_stream` yields, recorded; its last item is the result.

        After `timeout_s` seconds, or when the token is cancelled, it ends without a result (`stop_cause` says
        why), also where the team itself would stay pending. Raises what the team raises, Hold when a person
        must decide on an effect first, TeamSpent for a team that did not come to rest before, and ValueError
        for a `timeout_s` that no receipt can carry.
        """
        from autogen_core import CancellationToken

        if self._is_spent:
            raise TeamSpent("team: not_at_rest")
        check_seconds("timeout_s", timeout_s)
        self._judge()
        token = CancellationToken() if cancellation_token is None else cancellation_token
        before, results = self.record.progress_count, list[Any]()
        self._talk.begin()
        pump = Pump(
            lambda item: self._hear(item, results), self._recorder.running(self.record), self._settle_s
        )
        stream = self._team.run_stream(task=task, cancellation_token=token)
        ended: Ended | None = None
        try:
            async with aclosing(pump.messages(stream, token, self._checkpoint, timeout_s)) as messages:
                async for message in messages:
                    yield message
            ended = _ended(pump, results)
        finally:
            # Whoever stops listening ends the loop: that is no finish either.
            ended = ended or Ended(stopped_by_us="user_abort")
            self._is_spent = not pump.came_to_rest
            await self._close(ended, timeout_s, approval, progress=self.record.progress_count > before)
        if pump.error is not None and pump.alarm is None:
            raise pump.error

    async def checkpoint(self) -> str:
        """Record what the team holds now and return the checkpoint's HMAC; inconsistent while it runs."""
        return await self._rest(is_idle=not self._team._is_running)  # noqa: SLF001 - see `check_team`

    def interaction(self, source: str, receiver: str, kind: str, status: str = "ok") -> None:
        """Record an edge that the stream does not show."""
        body = {"from": source, "to": receiver, "kind": kind, "status": status}
        self.record.emit("interaction", {**body, "contract_version": self.record.contract_version})

    def _hear(self, item: Any, results: list[Any]) -> None:
        self._judge()
        if hasattr(item, "stop_reason"):
            results.append(item)
            return
        self._talk.checkpoint = self.record.checkpoint_ref(self._checkpoint)
        for fact in self._talk.heard(said_of(item)):
            self._write(fact)

    def _write(self, fact: Fact) -> None:
        body = dict(fact.body)
        if fact.kind == "interaction":
            body["contract_version"] = self.record.contract_version
        if fact.given is not None:
            self._handovers.said(fact.given, body)
            return
        self.record.emit(fact.kind, body)
        if fact.kind == "message" and body["class"] in _PROGRESSIVE:
            self.record.progress("message")

    def _edge_kind(self, source: str, receiver: str, kind: str) -> str:
        """Return the contract's word for an edge, else the declared one of ours, else the first declared."""
        declaration = self.record.declaration
        edges = declaration.contract["edges"] if declaration.contract else ()
        meant = {edge["kind"] for edge in edges if (edge["from"], edge["to"]) == (source, receiver)}
        if kind in meant or (not meant and kind in declaration.kinds):
            return kind
        return declaration.edge_kind(source, receiver) or kind

    async def _close(
        self, ended: Ended, timeout_s: float | None, approval: Approval | None, *, progress: bool
    ) -> None:
        record = self.record
        record.take_step_tools()
        self.stop_cause = ended.cause
        for fact in self._talk.ended(ended.cause, now_text()):
            self._write(fact)
        await self._rest(is_idle=ended.error is None and ended.stopped_by_us is None)
        limits = list(conditions(self._team))
        if timeout_s is not None:
            limits.append({"type": "deadline", "ms": int(timeout_s * 1000)})
        body = body_of(
            ended, self._talk.loop, record, limits, approval=self._route(approval), progress=progress
        )
        record.emit("stopped", body)
        self._judge()
        if not self._has_fallen:  # else the list of effects may lack some, and must not look complete
            record.close()

    def _judge(self) -> None:
        """Look again at the team: a tool may have come that goes past the recorder."""
        if not self._has_fallen and not self._still_full():
            self._has_fallen = True
            self._recorder.problems.add("recording_fell")

    def _route(self, approval: Approval | None) -> dict[str, Any]:
        """Return who decides; the token stands for the state that the team waits in, or for the held call."""
        route = Approval() if approval is None else approval
        deadline = in_utc(route.deadline)
        subject = self.record.held or self._checkpoint
        return {
            "owner": route.owner,
            "deadline": None if deadline is None else deadline.isoformat(),
            "resume_token": None if subject is None else self.record.key.digest(REF, subject),
        }

    async def _rest(self, *, is_idle: bool) -> str:
        """Write the receipt of a checkpoint. Its own id says which run and which of its stops."""
        record, parent = self.record, self._checkpoint
        own = f"{record.run}/{self._checkpoints}"
        entry: dict[str, Any] = {
            "t": "passed",
            "id": own,
            "parent": parent,
            "source": "loop",
            "writers": {},
            "run": record.run,
        }
        ref = record.key.digest(CHECKPOINT, own)
        found = await measured(self._recorder, self._team, self.external_ref, ref, record.run)
        body = {
            "checkpoint": ref,
            "parent_checkpoint": record.checkpoint_ref(parent),
            "step": self._checkpoints,
            "state": found.body,
            "consistent": is_idle and found.is_whole,
        }
        record.answers.add(entry)
        record.emit("checkpoint", body, local=entry)
        self._checkpoint, self._checkpoints = own, self._checkpoints + 1
        return ref


def _ended(pump: Pump, results: list[Any]) -> Ended:
    if pump.alarm is not None:
        return Ended(error=pump.error, stopped_by_us=_STOPPED[pump.alarm])
    if pump.error is not None:
        return Ended(error=pump.error)
    return Ended.saying(results[-1].stop_reason) if results else Ended()
