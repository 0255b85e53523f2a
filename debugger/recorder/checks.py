"""What is checked before a permit is redeemed, because redeeming seals; nothing here changes a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.domains import CHECKPOINT, THREAD
from branches.evidence.signing import PermitClaims
from debugger.recorder import configuration, editing
from debugger.recorder.state import MEMORY_PROBE
from debugger.recorder.stores import Store, StoreUnsupported

if TYPE_CHECKING:
    from debugger.recorder import Recorder

MATCHED: Final = "matched"
_DECISIONS: Final = frozenset({"reuse", "skip", "repeat"})


class Blocked(Exception):
    """A check failed; `rule` is a closed word that the server shows."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"blocked: {rule}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Source:
    """Where the branch comes from: the parent's thread, the checkpoint in it, and the opened edits."""

    thread: str
    checkpoint: str
    edits: tuple[editing.Edit, ...] = ()


class Checks:
    """Compares what a permit binds with this graph, this store and this home."""

    def __init__(self, recorder: "Recorder", graph: Any, store: Store, claims: PermitClaims) -> None:
        self._recorder = recorder
        self._graph = graph
        self._store = store
        self._claims = claims
        self._bound: dict[str, Any] = claims.bound

    def all(self, *, is_redeemed: bool) -> Source:
        """Return where the branch comes from. Raises Blocked.

        After the redemption the state is not compared again here: the restore does it, and says so.
        """
        bound, declaration = self._bound, self._recorder.declaration
        if (bound["workflow"], bound["workflow_version"]) != (declaration.name, declaration.version):
            raise Blocked("workflow_differs")
        self._check_graph()
        source = self._find()
        if not is_redeemed:
            self._check_state(source)
        edits = self._open_edits(source)
        check_operations(self._recorder, bound)
        return Source(source.thread, source.checkpoint, edits)

    def compare(self, reference: str, checkpoint: str) -> dict[str, dict[str, Any]]:
        """Measure the pinned keys that can be measured here: `{key: {"fingerprint", "result"}}`."""
        pinned: dict[str, str | None] = self._bound["state"]
        measured = self._recorder.state.measure(reference, checkpoint, pinned, run=self._claims.branch)
        return {
            name: {
                "fingerprint": each.fingerprint,
                "result": result_of(each.fingerprint, pinned[name], is_reachable=each.reachable),
            }
            for name, each in measured.items()
        }

    def _check_graph(self) -> None:
        """Refuse a graph other than the one that was pinned, or one that could act past the recorder."""
        bound, recorder = self._bound, self._recorder
        topology = recorder.topology(self._graph)
        if bound["topology"] is None:
            raise Blocked("topology_unknown")
        if bound["topology"] != topology.digest:
            raise Blocked("topology_differs")
        own = configuration.parts_of(recorder.described(topology), recorder.declaration)
        rule = configuration.difference(bound.get("configuration_parts"), bound["configuration"], own)
        if rule is not None:
            raise Blocked(rule)
        if recorder.unwrapped:
            raise Blocked("tool_unwrapped")

    def _find(self) -> Source:
        bound, key = self._bound, self._recorder.identity.key
        reference = bound["external_ref"]
        if reference is None or bound["parent"].startswith("br_"):
            reference = key.digest(THREAD, bound["parent"])  # a branch's thread is called after it
        try:
            found = self._store.find(key, reference, bound["checkpoint"])
        except StoreUnsupported:
            raise Blocked("store_unsupported") from None
        if found is None:
            raise Blocked("checkpoint_absent")
        thread, namespace, checkpoint = found
        if namespace:
            raise Blocked("checkpoint_in_subgraph")
        return Source(thread, checkpoint)

    def _check_state(self, source: Source) -> None:
        key = self._recorder.identity.key
        found = self.compare(key.digest(THREAD, source.thread), key.digest(CHECKPOINT, source.checkpoint))
        for each in found.values():
            # What a permit pins is what was accepted: where a drift was acknowledged, the drifted state.
            if each["result"] != MATCHED:
                raise Blocked(f"state_{each['result']}")

    def _open_edits(self, source: Source) -> tuple[editing.Edit, ...]:
        bound = self._bound["edits"]
        if not bound:
            return ()
        identity = self._recorder.identity
        try:
            sealed = self._recorder.client.edits(self._claims.permit)
            edits = editing.open_edits(sealed, bound, box=identity.box, key=identity.key)
            self._check_keys(edits)
            values = editing.values_at(self._graph, source.thread, source.checkpoint)
            row = self._store.row(source.thread, source.checkpoint)
            origin = None if row is None else row.source
            editing.check_fit(self._graph, values, origin, edits, key=identity.key)
            place = (source.thread, source.checkpoint)
            editing.rehearse(self._graph, self._store, *place, edits, key=identity.key)
        except editing.EditUnfit as error:
            raise Blocked(error.rule) from None
        return tuple(edits)

    def _check_keys(self, edits: list[editing.Edit]) -> None:
        """Refuse an edit of a value that the runtime's own memory does not hold."""
        rules = self._recorder.declaration.state_keys
        for edit in edits:
            if edit.state_key is None:
                continue
            rule = rules.get(edit.state_key)
            if rule is None or rule.probe != MEMORY_PROBE:
                raise Blocked("state_key_not_editable")


def check_operations(recorder: "Recorder", bound: Mapping[str, Any]) -> None:
    """Refuse what could not be honoured: there must be an answer to give back, or a stand-in for it."""
    recorder.answers.refresh()
    for operation, decision in bound["operations"].items():
        if decision["do"] not in _DECISIONS:
            raise Blocked("decision_unknown")
        if decision["do"] != "repeat" and not _can_answer(recorder, operation, decision.get("payload")):
            raise Blocked("answer_absent" if decision["do"] == "reuse" else "on_skip_absent")


def _can_answer(recorder: "Recorder", operation: str, payload: str | None) -> bool:
    answers = recorder.answers
    call = answers.call(operation)
    known = payload or (None if call is None else call.payload)
    if answers.has_value(operation, known):
        return True
    tool = None if call is None else recorder.tools.get(call.tool)
    return tool is not None and tool.has_on_skip


def result_of(found: str | None, pinned: str | None, *, is_reachable: bool) -> str:
    """Return the word for a measurement beside what was pinned."""
    if not is_reachable:
        return "unreachable"
    if found is None or pinned is None:
        return "not_restored"
    return MATCHED if found == pinned else "drifted"
