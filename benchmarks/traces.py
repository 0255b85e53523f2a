"""OTLP over HTTP: spans a second through `/v1/traces`, beside receipts a second through `/receipts`.

A request holds 496 spans, about what a stock exporter sends at most: 16 traces of a workflow, three agents,
and each agent's five model calls (two kilobytes of messages each) and four tool calls. All is durable before
the answer.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import batched, count
from typing import Any

import httpx

from benchmarks.server import serving
from benchmarks.world import ndjson

TRACE, AGENTS, CALLS = 31, 3, 5
EXPORTED = 16 * TRACE
ROUNDS = 3
RECEIPTS = 500
_WORDS = "the customer asks for the state of the order and what was promised about it; " * 26
_traces = count(1)


def measure(world: Any, spans: int) -> dict[str, Any]:
    """Return medians of three alternating rounds of so many spans in each encoding, and of our receipts."""
    from tests.adapters.otlp_requests import JSON, PROTOBUF, as_json, as_protobuf

    taken: dict[str, list[float]] = {"protobuf": [], "JSON": [], "receipts": []}
    sizes: dict[str, float] = {}
    with serving(world.token) as client:
        before = _stored()
        for _ in range(ROUNDS):
            for name, media, write in (("protobuf", PROTOBUF, as_protobuf), ("JSON", JSON, as_json)):
                bodies = list(_requests(spans, write))
                sizes[name] = sum(map(len, bodies)) / spans
                taken[name].append(spans / _send(client, "/v1/traces", media, bodies))
        per_span = (_stored() - before) / (2 * ROUNDS * spans)
        for number in range(ROUNDS):
            ours = list(_ours(world, spans, number))
            taken["receipts"].append(spans / _send(client, "/api/v1/receipts", "application/x-ndjson", ours))
        pieces = _in_pieces(client, as_protobuf, PROTOBUF)
    found = {name: statistics.median(each) for name, each in taken.items()}
    return {
        "spans sent in each round": spans,
        "protobuf, spans/s": found["protobuf"],
        "JSON, spans/s": found["JSON"],
        "receipts made of a span": per_span,
        "protobuf, receipts made of them/s": found["protobuf"] * per_span,
        "JSON, receipts made of them/s": found["JSON"] * per_span,
        "our own receipts/s": found["receipts"],
        "bytes of a span, protobuf; JSON": f"{sizes['protobuf']:,.0f}; {sizes['JSON']:,.0f}",
        "one trace of 501 spans whole, s": pieces[1],
        "the same in 16 requests, each read with the earlier, s": pieces[16],
    }


def _requests(spans: int, write: Callable[[list[Any]], bytes]) -> Iterator[bytes]:
    made = (span for _ in range(spans // TRACE) for span in _trace(next(_traces)))
    for batch in batched(made, EXPORTED):
        yield write(list(batch))


def _trace(trace: int, agents: int = AGENTS, calls: int = CALLS) -> list[Any]:
    """Return a trace of 1 + agents · 2 · calls spans, children before their parents as exporters send."""
    from tests.adapters.otlp_requests import agent, chat, tool, workflow

    own, found, at = count(2), [], 0.0
    talk = {
        "gen_ai.input.messages": _WORDS,
        "gen_ai.output.messages": _WORDS[:300],
        "gen_ai.usage.input_tokens": 612,
    }
    for number in range(agents):
        named, began = next(own), at
        for turn in range(calls):
            of_model = {"trace": trace, "start": at, "end": at + 0.4}
            found.append(chat(next(own), named, attributes=talk, **of_model))
            at += 0.5
            if turn < calls - 1:
                sent = {"gen_ai.tool.call.arguments": _WORDS[:200]}
                found.append(
                    tool(
                        next(own), named, f"tool-{turn}", attributes=sent, trace=trace, start=at, end=at + 0.2
                    )
                )
                at += 0.3
        found.append(agent(named, 1, f"agent-{number}", trace=trace, start=began, end=at))
    found.append(workflow(1, trace=trace, end=at + 1))
    return found


def _in_pieces(client: httpx.Client, write: Callable[[list[Any]], bytes], media: str) -> dict[int, float]:
    """Return the seconds that one long trace takes, by the number of requests it comes in."""
    found = {}
    for requests in (1, 16):
        spans = _trace(next(_traces), agents=50)
        bodies = [write(list(batch)) for batch in batched(spans, -(-len(spans) // requests))]
        found[requests] = _send(client, "/v1/traces", media, bodies)
    return found


def _ours(world: Any, receipts: int, number: int) -> Iterator[bytes]:
    from branches.evidence import ids
    from tests import builders

    uid = ids.mint("run")
    made = [builders.run_started(world, uid)]
    made += [builders.message(world, uid, f"otlp{number}-{n}") for n in range(receipts - 1)]
    for batch in batched(made, RECEIPTS):
        yield ndjson(list(batch))


def _send(client: httpx.Client, path: str, media: str, bodies: list[bytes]) -> float:
    start = time.perf_counter()
    for body in bodies:
        answer = client.post(path, content=body, headers={"Content-Type": media})
        assert answer.status_code == 200, answer.text
    return time.perf_counter() - start


def _stored() -> int:
    from branches.models import Receipt

    return Receipt.objects.count()
