"""Edits earlier messages and state values in place, and makes sure that nothing else became of it."""

import json
import sqlite3
from base64 import b64decode
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from branches.evidence.boxes import BoxError, BoxKey
from branches.evidence.domains import EDIT
from branches.evidence.keys import HmacKey
from branches.evidence.langgraph_store import StoreUnreadable, copy, extract
from branches.evidence.plain_json import parsed
from debugger.recorder.messages import found_in, is_message, message_ref
from debugger.recorder.rehearsal import Attempts, no_run
from debugger.recorder.stores import Store, config_of
from debugger.recorder.values import are_equal, are_of_one_kind, channel_of, why_not, write_of


class EditUnfit(Exception):
    """An edit that cannot be applied as it was meant; `rule` is a closed word."""

    def __init__(self, rule: str) -> None:
        super().__init__(f"edit: {rule}")
        self.rule = rule


@dataclass(frozen=True, slots=True)
class Edit:
    """One opened edit: which message, or which value of a state key, gets which text (a value's is JSON)."""

    target: str
    text: str
    state_key: str | None = None


def open_edits(
    sealed: Sequence[Mapping[str, Any]], bound: Sequence[Mapping[str, Any]], *, box: BoxKey, key: HmacKey
) -> list[Edit]:
    """Open the edits the server gave and compare them with those the permit binds. Raises EditUnfit."""
    if sorted(map(_bound, sealed)) != sorted(map(_bound, bound)):
        raise EditUnfit("edits_differ")
    edits = []
    for each in sealed:
        try:
            text = json.loads(box.open(b64decode(each["sealed"])))["text"]
        except (BoxError, ValueError, KeyError, TypeError):
            raise EditUnfit("edit_unreadable") from None
        if not isinstance(text, str) or key.digest(EDIT, text) != each["edit"]:
            raise EditUnfit("edit_digest")
        edits.append(Edit(each["target"], text, each.get("state_key")))
    if len({edit.target for edit in edits}) != len(edits):
        raise EditUnfit("edit_twice")
    return edits


def check_fit(graph: Any, values: Any, source: str | None, edits: Sequence[Edit], *, key: HmacKey) -> None:
    """Refuse, before anything exists, what would silently do something else. Raises EditUnfit.

    At an input checkpoint the other input would vanish; a message that is not there, or a channel that
    does not replace, would be appended to.
    """
    if source == "input":
        raise EditUnfit("edit_at_input")
    for edit in edits:
        if edit.state_key is None:
            _check_message(graph, values, edit, key)
        else:
            _check_value(graph, values, edit, key)


def values_at(graph: Any, thread: str, checkpoint: str) -> Any:
    """Return what a checkpoint holds. Raises EditUnfit where the graph cannot read it."""
    try:
        return graph.get_state(config_of(thread, checkpoint)).values
    except sqlite3.Error:
        raise  # a store that is locked is asked again later
    except Exception:  # noqa: BLE001 - a foreign error's text holds what is in the state
        raise EditUnfit("state_unreadable") from None


def rehearse(
    graph: Any, store: Store, thread: str, checkpoint: str, edits: Sequence[Edit], *, key: HmacKey
) -> None:
    """Apply the edits to a copy in memory, so that what cannot be applied is known before the permit is used.

    The copy is gone afterwards, and nothing was sent or written; see `apply`. Raises EditUnfit.
    """
    from langgraph.checkpoint.sqlite import SqliteSaver

    with closing(sqlite3.connect(":memory:", check_same_thread=False)) as scratch:
        saver = SqliteSaver(scratch, serde=store.saver.serde)
        saver.setup()
        with store.connection() as connection:
            try:
                extract(connection, scratch, thread=thread, checkpoint=checkpoint)
            except StoreUnreadable:
                raise EditUnfit("checkpoint_absent") from None
        own = graph.copy(update={"checkpointer": saver})
        target = f"{thread}-rehearsed"
        for goto in (False, True):
            copy(scratch, source=thread, checkpoint=checkpoint, target=target)
            scratch.commit()
            try:
                apply(own, target, checkpoint, edits, key=key, goto=goto)
            except EditUnfit:
                if goto:
                    raise
            else:
                return


def apply(
    graph: Any, thread: str, checkpoint: str, edits: Sequence[Edit], *, key: HmacKey, goto: bool = False
) -> str:
    """Apply the edits at the only checkpoint of a branch's thread; returns the new checkpoint's id.

    The runtime runs the last nodes' routers again. `goto` names the nodes that were to run: a node that
    routes by Command says nothing when its router is asked again.

    A router may read the graph's long-term store. One that calls a recorded tool, or writes to that store,
    cannot be asked again without doing it twice: its graph is not edited there (`router_calls_tool`,
    `router_writes_store`; also where it swallows the refusal). Nor is one that needs the run's own context,
    which is not known here (`edit_refused_by_runtime`). What a router does past the recorder and the
    store, nobody can hold back. Raises EditUnfit, whatever the runtime raises.
    """
    with no_run() as attempts:
        try:
            applied = _apply(graph, thread, checkpoint, edits, key, goto=goto, attempts=attempts)
        except EditUnfit as error:
            raise EditUnfit(attempts.rule or error.rule) from None
        except Exception:  # noqa: BLE001 - a foreign error's text holds what was refused
            raise EditUnfit(attempts.rule or "edit_refused_by_runtime") from None
        if attempts.rule is not None:
            raise EditUnfit(attempts.rule)
    return applied


def _apply(
    graph: Any,
    thread: str,
    checkpoint: str,
    edits: Sequence[Edit],
    key: HmacKey,
    *,
    goto: bool,
    attempts: Attempts,
) -> str:
    from langgraph.types import Command, StateUpdate

    from debugger.recorder.silenced import silenced, with_runtime

    graph, config = silenced(graph, attempts), config_of(thread)
    before = graph.get_state(config)
    change = _change(graph, before.values, edits, key)
    first, *others = _last_nodes(graph, config)
    whole: Any = Command(update=change.writes, goto=list(before.next)) if goto else change.writes
    # The others wrote in the same step: asked with nothing, each only runs its router.
    updates = [StateUpdate(whole, first), *(StateUpdate(None, node) for node in others)]
    graph.bulk_update_state(with_runtime(graph, config), [updates])
    after = graph.get_state(config)
    _compare(before, after, change, checkpoint)
    return str(after.config["configurable"]["checkpoint_id"])


@dataclass(frozen=True, slots=True)
class _Change:
    """What is written to each channel, and what each must then hold."""

    writes: dict[str, Any]
    messages: dict[str, list[Any]]
    values: dict[str, Any]


def _change(graph: Any, values: Any, edits: Sequence[Edit], key: HmacKey) -> _Change:
    replaced: dict[str, list[Any]] = {}
    meant: dict[str, Any] = {}
    for edit in edits:
        if edit.state_key is None:
            ((channel, message),) = _places(values, edit.target, key)
            # A new message object would lose its name and everything else but the text.
            replaced.setdefault(channel, []).append(message.model_copy(update={"content": edit.text}))
        elif (named := channel_of(values, edit.target, key)) is not None:
            meant[named] = parsed(edit.text)
    writes = {**replaced, **{name: write_of(graph, name, value) for name, value in meant.items()}}
    return _Change(writes, replaced, meant)


def _bound(edit: Mapping[str, Any]) -> tuple[str, ...]:
    return (edit["edit"], edit["edit_class"], edit["target"], edit.get("state_key") or "")


def _check_message(graph: Any, values: Any, edit: Edit, key: HmacKey) -> None:
    places = _places(values, edit.target, key)
    if len(places) != 1:
        raise EditUnfit("message_absent" if not places else "message_ambiguous")
    if not _replaces_by_id(graph, places[0][0]):
        raise EditUnfit("channel_appends")
    if not isinstance(places[0][1].content, str):
        raise EditUnfit("content_not_text")


def _check_value(graph: Any, values: Any, edit: Edit, key: HmacKey) -> None:
    channel = channel_of(values, edit.target, key)
    if channel is None:
        raise EditUnfit("value_absent")
    if (problem := why_not(graph, values, channel)) is not None:
        raise EditUnfit(problem)
    try:
        value = parsed(edit.text)
    except ValueError:
        raise EditUnfit("value_not_json") from None
    if not are_of_one_kind(values[channel], value):
        raise EditUnfit("value_of_another_kind")


def _places(values: Any, target: str, key: HmacKey) -> list[tuple[str, Any]]:
    return [
        (channel, message)
        for channel, messages in found_in(values)
        for message in messages
        if message_ref(key, message) == target
    ]


def _replaces_by_id(graph: Any, channel: str) -> bool:
    """Whether a channel's reducer puts a message in the place of the one with its id."""
    from langchain_core.messages import AIMessage

    found = graph.channels.get(channel)
    reducer = getattr(found, "operator", None)
    batch = getattr(found, "reducer", None)
    old, new = AIMessage("a", id="branchgate-1"), AIMessage("b", id="branchgate-1")
    try:
        if reducer is not None:
            merged = reducer([old], [new])
        elif batch is not None:
            merged = batch([old], [[new]])
        else:
            return False
    except Exception:  # noqa: BLE001 - a foreign reducer that cannot do this does not replace by id
        return False
    return isinstance(merged, list) and [each.content for each in merged if is_message(each)] == ["b"]


def _compare(before: Any, after: Any, change: _Change, fork: str) -> None:
    """Compare what came of it with what was meant. Raises EditUnfit."""
    parent = (after.parent_config or {}).get("configurable", {}).get("checkpoint_id")
    if parent != fork:
        raise EditUnfit("edit_parent")
    if sorted(after.next) != sorted(before.next):
        raise EditUnfit("edit_next")
    if set(after.values) != set(before.values):
        raise EditUnfit("edit_channels")
    for channel, value in before.values.items():
        if channel not in change.writes and after.values[channel] != value:
            raise EditUnfit("edit_channels")
    for channel, replaced in change.messages.items():
        texts = {str(each.id): each for each in replaced}
        meant = [texts.get(str(getattr(each, "id", "")), each) for each in before.values[channel]]
        if list(after.values[channel]) != meant:
            raise EditUnfit("edit_messages")
    for channel, value in change.values.items():
        if not are_equal(after.values[channel], value):
            raise EditUnfit("value_not_taken")


def _last_nodes(graph: Any, config: Any) -> list[str]:
    """Return the nodes that wrote the newest checkpoint: those that saw the newest versions."""
    seen = graph.checkpointer.get_tuple(config).checkpoint["versions_seen"]
    newest = {
        node: max(versions.values()) for node, versions in seen.items() if versions and node in graph.nodes
    }
    if not newest:
        raise EditUnfit("edit_node_unknown")
    last = max(newest.values())
    return sorted(node for node, version in newest.items() if version == last)
