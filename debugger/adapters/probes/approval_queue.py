"""Questions to people that a runtime itself keeps: LangGraph's interrupts, and OpenAI Agents' approvals.

What waits must still wait, and what was decided must still be decided as it was; anything that came later is
drift. Nothing stored is ever executed: blobs are hashed as they are.
"""

import hashlib
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from branches.evidence import langgraph_store
from branches.evidence.domains import PART, REF, STATE
from branches.evidence.keys import HmacKey
from branches.evidence.langgraph_tasks import Question, questions
from branches.evidence.msgpack_hash import canonical_hash_exact
from branches.evidence.msgpack_read import MsgpackMalformed
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text_or
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.langgraph_file import opened_store
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.probes.run_state import StateUnreadable, read_run_state

MOST_ASKED: Final = 10_000
_ROOT: Final = ""
_LIMITS: Final = (
    "Which questions wait, which were decided and how, and what was asked and answered (as digests) are"
    " compared; who looks at them, and what is asked outside this runtime, is not."
)
_REMEDY: Final = "Ask anew for what was pending then, or fork from a point after it was decided."


class _Unanswerable(Exception):
    """The store does not say; the message is a closed word."""


@dataclass(frozen=True, slots=True)
class _Queue:
    """Keyed digests only: of each question that waits, and of each that was decided with how it was."""

    pending: list[str]
    resolved: list[list[str]]

    def measured(self, key: HmacKey) -> StateMeasurement:
        """Return the measurement of this queue."""
        lists = {"pending": sorted(self.pending), "resolved": sorted(self.resolved)}
        parts = {key.digest(PART, name): key.digest_of(STATE, {name: found}) for name, found in lists.items()}
        return StateMeasurement(
            key.digest_of(STATE, {"queue": lists}),
            {"pending": len(self.pending), "resolved": len(self.resolved)},
            parts=parts,
        )


class LangGraphInterruptsProbe:
    """Options: `store`, the path of the SQLite checkpointer; `thread_id` where no moment names the thread."""

    acknowledgeable = False
    part_names = ("pending", "resolved")
    limits = _LIMITS
    remedy = _REMEDY

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the queue of the whole thread: what waits at its newest checkpoint, and what was decided."""
        return _interrupts(target, moment, None)

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the queue as it is up to the moment's checkpoint."""
        if moment.checkpoint is None:
            return StateMeasurement(None, problem="no_checkpoint")
        return _interrupts(target, moment, moment.checkpoint)


class RunStateProbe(NoJournal):
    """Options: `file`, a saved RunState of the OpenAI Agents SDK (schema 1.0 to 1.21)."""

    acknowledgeable = False
    part_names = ("pending", "resolved")
    limits = _LIMITS
    remedy = _REMEDY

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the queue as the file has it."""
        del moment
        key = target.key
        try:
            found = read_run_state(local_path(target, "file"))
        except TargetUnfit as error:
            return unfit_measurement(error)
        except StateUnreadable as error:
            return StateMeasurement(None, reachable=False, problem=str(error))
        return _Queue(
            [key.digest(REF, each) for each in found.pending],
            [[key.digest(REF, each), word] for each, word in found.decided],
        ).measured(key)


def _interrupts(target: Target, moment: Moment, checkpoint: str | None) -> StateMeasurement:
    try:
        with opened_store(local_path(target, "store")) as connection:
            queues = [
                _queue(connection, target.key, thread, checkpoint).measured(target.key)
                for thread in _threads(connection, target, moment)
            ]
    except TargetUnfit as error:
        return unfit_measurement(error)
    except _Unanswerable as error:
        return StateMeasurement(None, problem=str(error))
    except Unreachable as error:
        return StateMeasurement(None, reachable=False, problem=error.problem)
    if not queues:
        return StateMeasurement(None, problem="thread_absent")
    if any(each != queues[0] for each in queues):  # copies that no longer agree prove nothing
        return StateMeasurement(None, problem="thread_ambiguous")
    return queues[0]


def _threads(connection: sqlite3.Connection, target: Target, moment: Moment) -> Iterator[str]:
    """Yield the thread that is meant, or every one with the moment's checkpoint where none is named."""
    own = text_or(target, "thread_id", "") or None
    if own is None and moment.external_ref is not None:
        own = langgraph_store.find_thread(connection, target.key, moment.external_ref)
        if own is None:
            return
    for thread, _, checkpoints in langgraph_store.threads(connection):
        if not checkpoints or (own is not None and thread != own):
            continue
        if own is not None or (
            moment.checkpoint is not None
            and langgraph_store.find_checkpoint(connection, target.key, thread, moment.checkpoint)
        ):
            yield thread


def _queue(connection: sqlite3.Connection, key: HmacKey, thread: str, checkpoint: str | None) -> _Queue:
    """Return the queue of a thread, or only of a checkpoint's line. Raises _Unanswerable."""
    line: Collection[str] | None = None
    if checkpoint is None:
        head = connection.execute(
            "SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?",
            (thread, _ROOT),
        ).fetchone()[0]
    else:
        found = langgraph_store.find_checkpoint(connection, key, thread, checkpoint)
        if found is None or found[0] != _ROOT:
            raise _Unanswerable("checkpoint_absent")
        head = found[1]
        line = frozenset(langgraph_store.lineage(connection, thread, head))
    queue = _Queue([], [])
    asked = questions(connection, thread, MOST_ASKED + 1)
    if sum(map(len, asked.values())) > MOST_ASKED:
        raise _Unanswerable("too_many")
    for own, found_there in asked.items():
        if line is None or own in line:
            _sort_in(queue, key, own, found_there, is_head=own == head)
    return queue


def _sort_in(queue: _Queue, key: HmacKey, checkpoint: str, found: list[Question], *, is_head: bool) -> None:
    """Put a checkpoint's questions where they belong, by the rules of `langgraph_tasks`."""
    for_any = next((_hash(*each.answered) for each in found if each.standing.is_unclaimed_answer), None)
    for each in found:
        task = each.standing
        if task.is_unclaimed_answer:
            continue
        question = key.digest(REF, f"{checkpoint}\0{task.task}\0".encode() + _hash(*each.asked))
        own = _hash(*each.answered) if task.has_answer else None
        if is_head and task.waits(is_answer_unclaimed=for_any is not None):
            queue.pending.append(question)
        elif task.waits(is_answer_unclaimed=for_any is not None) and own is None:
            queue.resolved.append([question, "left"])  # the thread went on without it
        else:
            queue.resolved.append([question, key.digest(REF, b"answer\0" + (own or for_any or b""))])


def _hash(kind: str | None, raw: bytes | None) -> bytes:
    if kind == "msgpack" and raw:
        try:
            return canonical_hash_exact(bytes(raw))
        except MsgpackMalformed:
            pass
    return hashlib.sha256(f"{kind}\0".encode() + bytes(raw or b"")).digest()
