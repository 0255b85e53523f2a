"""Whatever order spans come in, however they are divided and doubled: the same runs at the same places."""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from branches.ports import Earlier, SourceFile
from debugger.adapters.runtimes.otlp import OtlpImporter
from debugger.adapters.runtimes.otlp_kept import read as kept
from debugger.adapters.runtimes.otlp_kept import written
from tests.adapters.otlp_requests import (
    CAPTURED,
    JSON,
    PROTOBUF,
    Sent,
    as_json,
    as_protobuf,
    captured,
    check,
    read,
    request,
)
from tests.adapters.places import KEY, MARKER

AGENTS_SDK = "openinference.instrumentation.openai_agents"
BODIES = sorted(path.name for path in CAPTURED.iterdir() if "headers" not in path.name)
OPERATIONS = some.sampled_from(["invoke_agent", "invoke_workflow", "execute_tool", "chat"])
LINK_KINDS = some.sampled_from(["handoff", "branch_of", MARKER])
NAMES = some.sampled_from(["triage", "billing", "refund", "turn", f"a name {MARKER}"])
ATTRIBUTES: some.SearchStrategy[dict[str, Any]] = some.fixed_dictionaries(
    {},
    optional={
        "gen_ai.operation.name": some.sampled_from(
            ["invoke_agent", "invoke_workflow", "execute_tool", "chat"]
        ),
        "openinference.span.kind": some.sampled_from(["AGENT", "CHAIN", "TOOL", "LLM", "GUARDRAIL"]),
        "traceloop.span.kind": some.sampled_from(["workflow", "agent", "tool", "task"]),
        "gen_ai.agent.name": NAMES,
        "gen_ai.tool.name": NAMES,
        "gen_ai.tool.call.id": some.sampled_from(["call-1", "call-2"]),
        "gen_ai.conversation.id": some.sampled_from(["c-1", "c-2"]),
        "graph.node.id": NAMES,
        "graph.node.parent_id": NAMES,
        "gen_ai.response.finish_reasons": some.lists(some.sampled_from(["stop", "length"]), max_size=2),
        "gen_ai.usage.input_tokens": some.integers(-5, 2**53 + 5),
        "input.value": some.just(MARKER),
        "output.value": some.just(MARKER),
        "error.type": some.sampled_from(["timeout", "ParentCommand", "MaxTurnsExceeded", MARKER]),
        "metadata": some.sampled_from(
            [
                '{"langgraph_node": "billing", "langgraph_step": 2, "langgraph_checkpoint_ns": "billing:1"}',
                '{"langgraph_node": "triage", "langgraph_step": 1, "langgraph_checkpoint_ns": "triage:2"}',
                '{"langgraph_node": ',
            ]
        ),
    },
)
EXCEPTIONS = some.lists(
    some.sampled_from(["x.GraphInterrupt", "TimeoutError", "CancelledError", "ValueError"]), max_size=2
)
LINKS = some.lists(
    some.tuples(
        some.integers(1, 2), some.integers(1, 12), some.sampled_from(["handoff", "branch_of", MARKER])
    ),
    max_size=2,
)


@some.composite
def a_span(draw: Any, number: int) -> Sent:
    start = draw(some.integers(0, 20))
    return Sent(
        span=number,
        parent=draw(some.integers(0, 13).filter(lambda parent: parent != number)),
        attributes=draw(ATTRIBUTES),
        name=draw(NAMES),
        start=start,
        end=draw(some.one_of(some.none(), some.integers(start, 40))),
        status=draw(some.integers(0, 2)),
        trace=draw(some.integers(1, 2)),
        exceptions=draw(EXCEPTIONS),
        links=draw(LINKS),
        trace_state=draw(some.sampled_from(["", "ot=th:0", "ot=th:c", f"x={MARKER}"])),
        flags=draw(some.sampled_from([0, 0x100, 0x101, 0x300, 0x102])),
        dropped=draw(some.tuples(*[some.integers(0, 1)] * 3)),
    )


@some.composite
def spans(draw: Any) -> list[Sent]:
    return [draw(a_span(number)) for number in range(1, draw(some.integers(1, 12)) + 1)]


def divided(found: list[Sent], rng: random.Random, scope: str) -> list[SourceFile]:
    """Return the spans in another order, some twice, over several requests of both kinds."""
    shuffled = found + rng.sample(found, rng.randint(0, len(found)))
    rng.shuffle(shuffled)
    files: list[SourceFile] = []
    while shuffled:
        count = rng.randint(1, len(shuffled))
        part, shuffled = shuffled[:count], shuffled[count:]
        if rng.random() < 0.5:
            files.append(request(as_protobuf(part, scope), PROTOBUF, label=f"f{len(files)}"))
        else:
            files.append(request(as_json(part, scope), JSON, label=f"f{len(files)}"))
    return files


@settings(max_examples=150, deadline=None)
@given(spans(), some.randoms(use_true_random=False), some.sampled_from(["", AGENTS_SDK]))
def test_order_division_doubling_and_encoding_do_not_matter(
    found: list[Sent], rng: random.Random, scope: str
) -> None:
    whole = OtlpImporter().read([request(as_protobuf(found, scope))], KEY)
    check(whole)
    assert whole.refused == ()
    assert MARKER not in repr(whole).replace(f"'{MARKER}'", "")
    assert OtlpImporter().read(divided(found, rng, scope), KEY) == whole


@settings(max_examples=60, deadline=None)
@given(spans(), some.sampled_from(["", AGENTS_SDK]))
def test_what_is_kept_of_spans_is_all_that_is_read_of_them(found: list[Sent], scope: str) -> None:
    importer, file = OtlpImporter(), request(as_protobuf(found, scope))
    pieces = importer.pieces_of(file)
    whole = importer.read([file], KEY)
    for piece in pieces.values():
        assert written(kept(piece)) == piece
    assert importer.read_beside(file, Earlier(tuple(pieces.values())), KEY) == whole
    empty = request(as_protobuf([]))
    assert importer.read_beside(empty, Earlier(tuple(pieces.values())), KEY) == whole


@settings(max_examples=60, deadline=None)
@given(spans(), spans(), some.randoms(use_true_random=False))
def test_it_does_not_depend_on_which_of_two_contradicting_copies_came_first(
    one: list[Sent], other: list[Sent], rng: random.Random
) -> None:
    both = one + other
    first = OtlpImporter().read([request(as_protobuf(both))], KEY)
    check(first)
    second = OtlpImporter().read(divided(both, rng, ""), KEY)
    assert second.runs == first.runs
    assert len(second.refused) == len(first.refused)
    assert {(each.field, each.rule) for each in first.refused} <= {("span_id", "conflict")}


@settings(max_examples=200, deadline=None)
@given(some.data())
def test_no_change_to_a_captured_body_breaks_the_reading_or_brings_out_content(draw: Any) -> None:
    name = draw.draw(some.sampled_from(BODIES))
    file = captured(name)
    content = bytearray(file.content)
    for _ in range(draw.draw(some.integers(1, 4))):
        at = draw.draw(some.integers(0, len(content) - 1))
        cut = draw.draw(some.integers(0, 3))
        content[at : at + cut] = draw.draw(some.binary(max_size=4))
    found = read(SourceFile("request", bytes(content), file.headers))
    for each in found.refused:
        assert MARKER not in repr(each)


@settings(max_examples=200, deadline=None)
@given(some.binary(max_size=200), some.sampled_from([PROTOBUF, JSON]), some.sampled_from(["", "gzip"]))
def test_any_bytes_are_read_or_refused(content: bytes, media: str, encoding: str) -> None:
    found = read(request(content, media, encoding))
    assert found.runs == () or not found.refused
