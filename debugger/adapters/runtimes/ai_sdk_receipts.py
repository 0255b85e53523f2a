"""The receipts of one loop of the Vercel AI SDK: its start, the tool calls that were run, and its stop."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from branches.evidence.domains import OPERATION, PAYLOAD, THREAD
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.ports import SourceReceipt, SourceRun
from debugger.adapters.runtimes.ai_sdk_facts import Call, Loop
from debugger.adapters.runtimes.ai_sdk_stops import stop_of
from debugger.adapters.runtimes.source_json import written
from debugger.adapters.runtimes.stop_bodies import Cut, named, stopped_body

RUNTIME: Final = "ai-sdk"
NO_TIME: Final = "1970-01-01T00:00:00Z"
"""Evidence may hold no time at all, and the epoch stands for that."""
_CUT_SHORT: Final = frozenset({"TimeoutError", "AbortError"})
# What somebody expects of a file, or says that it is of, is no part of what happened.
_NO_FACTS: Final = frozenset({"expected_stop_state", "workflow"})


def run_of(value: Mapping[str, Any], loop: Loop, key: HmacKey) -> tuple[SourceRun, tuple[Cut, ...]]:
    """Return a loop as a run, and what had to be cut of it. The file names no id: its content is the id."""
    facts = {name: each for name, each in value.items() if name not in _NO_FACTS}
    identity = hashlib.sha256(written(facts).encode()).hexdigest()
    stopped = stopped_body(stop_of(loop, key), key)
    agent = None if loop.agent is None else named(key, Declared.AGENT, loop.agent)
    receipts = [
        SourceReceipt(
            "run_started", loop.started_at or NO_TIME, "start", _started(loop, identity, key), None
        ),
        *_effects(loop, identity, key, agent),
        SourceReceipt("stopped", loop.ended_at or NO_TIME, "stop", stopped.body, agent),
    ]
    run = SourceRun(_reference(identity, key), tuple(receipts), workflow=loop.workflow)
    return run, stopped.cut


def _reference(identity: str, key: HmacKey) -> str:
    return key.digest(THREAD, f"{RUNTIME}\0{identity}")


def _started(loop: Loop, identity: str, key: HmacKey) -> dict[str, Any]:
    return {
        "workflow": None,
        "workflow_version": None,
        "runtime": {"name": RUNTIME, "version": loop.version},
        "external_ref": _reference(identity, key),
        "configuration": None,
        "contract_version": None,
        "phase": None,
        "recording": "imported",
    }


def _effects(loop: Loop, identity: str, key: HmacKey, agent: str | None) -> Iterator[SourceReceipt]:
    """Yield the receipts of every call that the SDK ran, or may have run.

    The evidence holds no arguments, so the payload is a digest that equals no other: nothing may ever take
    two of these calls for the same.
    """
    for place, at, call in _calls_run(loop):
        operation = key.digest(OPERATION, f"{RUNTIME}\0{identity}\0{place}\0{call.ref}")
        intended = {
            "operation_key": operation,
            "key_strength": "weak",
            "checkpoint": None,
            "destination": None,
            "tool": named(key, Declared.TOOL, call.tool),
            "effect_class": "unknown",
            "payload": key.digest(PAYLOAD, f"unseen\0{operation}"),
        }
        yield SourceReceipt("effect_intended", at, place, intended, agent)
        if (answer := _answer(call)) is not None:
            answered = {"operation_key": operation, "answer": answer}
            unsaid = {"destination_ref": None, "destination_version": None}
            yield SourceReceipt("effect_answered", at, f"{place}/answer", {**answered, **unsaid}, agent)


def _calls_run(loop: Loop) -> Iterator[tuple[str, str, Call]]:
    """Yield (place, time, call); those that no step shows come first: what was approved ran before all."""
    for index, each in enumerate(loop.outside):
        at = loop.ended_at if each.after_step else loop.started_at
        yield f"outside/{index}", at or NO_TIME, each.call
    for number, step in enumerate(loop.steps, 1):
        for index, call in enumerate(step.calls):
            if _was_run(loop, call):
                yield f"call/{number}/{index}", step.at or NO_TIME, call


def _was_run(loop: Loop, call: Call) -> bool:
    """A call that waits, was denied, or that the SDK could not make never reached its tool."""
    if not call.is_valid or call.pending or call.denied:
        return False
    # A tool that the agent did not list is one of a server, and may well have been run.
    return call.returned or call.error is not None or loop.executes.get(call.tool, True)


def _answer(call: Call) -> str | None:
    if call.returned:
        return "acknowledged"
    if call.error is None:
        return None
    return "no_answer" if call.error in _CUT_SHORT else "failed"
