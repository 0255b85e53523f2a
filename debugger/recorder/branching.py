"""Resumes a branch on LangGraph: a thread of its own, copied, edited and hashed again before it starts."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.langgraph_store import copy
from branches.evidence.signing import PermitClaims
from debugger.recorder import attempts, crash, editing
from debugger.recorder.checks import Checks, Source
from debugger.recorder.gates import Hold
from debugger.recorder.journal import Journal, Step
from debugger.recorder.record import RunRecord
from debugger.recorder.runs import Run
from debugger.recorder.state import MEMORY_PROBE
from debugger.recorder.stores import Store, config_of

if TYPE_CHECKING:
    from debugger.recorder import Recorder


class Branch(attempts.Attempt[Source]):
    """One attempt at one permit, on one graph."""

    def __init__(
        self,
        recorder: "Recorder",
        graph: Any,
        claims: PermitClaims,
        context: Callable[[], Any] = lambda: None,
        is_stopped: Callable[[str], bool] = lambda _: False,
    ) -> None:
        super().__init__(recorder, claims, is_stopped)
        self._graph = graph
        self._context = context
        self._store = Store(graph)
        self._checks = Checks(recorder, graph, self._store, claims)

    def _check(self, *, is_redeemed: bool) -> Source:
        return self._checks.all(is_redeemed=is_redeemed)

    def _load(self, steps: Journal, source: Source) -> bool:
        """Copy and edit; returns whether every edit fits, and the thread is the parent's but for them."""
        self._copy(source)
        steps.note(Step.COPIED)
        crash.here("after_copy")
        is_applied = not source.edits or self._edit(source)
        if is_applied:
            steps.note(Step.EDITED)
        crash.here("after_edit")
        return is_applied and self._is_copied_whole(source)

    def _edit(self, source: Source) -> bool:
        key = self._recorder.identity.key
        for goto in (False, True):
            try:
                editing.apply(self._graph, self.thread, source.checkpoint, source.edits, key=key, goto=goto)
            except editing.EditUnfit as error:
                self._recorder.problems.add(error.rule)
                self._copy(source)  # nothing of a wrong edit stays
            else:
                return True
        return False

    def _copy(self, source: Source) -> None:
        with self._store.transaction() as connection:
            copy(connection, source=source.thread, checkpoint=source.checkpoint, target=self.thread)

    def _is_copied_whole(self, source: Source) -> bool:
        """Whether what stands in the branch's thread hashes to what stands in the parent's."""
        key = self._recorder.identity.key
        found = self._store.fingerprint(key, self.thread, source.checkpoint)
        return found is not None and found == self._store.fingerprint(key, source.thread, source.checkpoint)

    def _restored_state(self, source: Source, *, is_whole: bool) -> dict[str, dict[str, Any]]:
        """Hash what was loaded: the memory in the branch's own thread, everything else as it is now."""
        key = self._recorder.identity.key
        checkpoint = key.digest(CHECKPOINT, source.checkpoint)
        state = self._checks.compare(key.digest(THREAD, self.thread), checkpoint)
        if not is_whole:
            for name, rule in self._recorder.declaration.state_keys.items():
                if rule.probe == MEMORY_PROBE:
                    state[name] = {"fingerprint": None, "result": "not_restored"}
        return state

    def _prepare(self, record: RunRecord, source: Source) -> Callable[[], str]:
        run = Run(self._recorder, self._graph, record, self.thread, may_go_on=self._go_on)
        self._recorder.answers.add(
            {"t": "run", "run": record.run, "thread": self.thread, "root": record.root}
        )
        before = self._graph.get_state(config_of(self.thread, source.checkpoint))
        run.learn(before.values, source.checkpoint)

        def go() -> str:
            try:
                run.invoke(None, context=self._context())
            except (Hold, Exception):  # noqa: BLE001 - recorded as what stopped the run; the recorder goes on
                self._recorder.problems.add(run.stop_cause or "unknown")
            return run.stop_cause or "unknown"

        return go


def resume(
    recorder: "Recorder",
    graph: Any,
    envelope: Mapping[str, Any],
    *,
    context: Callable[[], Any] = lambda: None,
    is_stopped: Callable[[str], bool] = lambda _: False,
) -> str:
    """Take one permit as far as it may go; see `attempts.take`."""
    return attempts.take(
        recorder, envelope, lambda claims: Branch(recorder, graph, claims, context, is_stopped)
    )
