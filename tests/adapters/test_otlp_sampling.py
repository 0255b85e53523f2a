"""What spans say is missing: sampled traces, flags, and parts that were dropped, as JSON and as protobuf."""

from typing import Any

import pytest

from branches.ports import Earlier
from debugger.adapters.runtimes.otlp import OtlpImporter
from tests.adapters.otlp_bodies import ENCODINGS, only
from tests.adapters.otlp_requests import (
    OK,
    PROTOBUF,
    Sent,
    agent,
    as_protobuf,
    bodies,
    cause,
    chat,
    edges,
    inference,
    read_spans,
    receipts,
    request,
    tool,
    workflow,
)
from tests.adapters.places import KEY, MARKER


def gaps(*spans: Sent) -> list[str]:
    return [body["gap"] for body in bodies(read_spans(*spans), "recording_gap")]


@pytest.mark.parametrize(
    "trace_state",
    [
        "ot=th:c",
        "ot=th:fd70a4;rv:fe123456789abc",
        "ot=rv:fe123456789abc;th:8",
        "vendor=1, ot=th:8 ,other=ot=th:0",
        "ot=p:8;r:62",
        "ot=p:63",
        "ot=th:0;p:1",
        "ot=th:",
        "ot=th:no-threshold",
    ],
)
def test_a_threshold_other_than_zero_says_that_the_trace_was_sampled(trace_state: str) -> None:
    assert gaps(agent(1), chat(2, 1, trace_state=trace_state)) == ["sampled"]


@pytest.mark.parametrize(
    "trace_state",
    [
        "",
        "ot=th:0",
        "ot=th:00000000000000;rv:fe123456789abc",
        "ot=p:0;r:62",
        "ot=rv:fe123456789abc",
        "ot=r:5",
        "th:8",
        "ot",
        "tenant@ot=th:8",
        "other=th:8",
        "ot=xth:8;kp:2",
        f"x={MARKER}",
        "x=" + "y" * 20_000,
    ],
)
def test_no_sampling_or_no_word_of_it_says_nothing(trace_state: str) -> None:
    assert gaps(agent(1), chat(2, 1, trace_state=trace_state)) == []


@pytest.mark.parametrize(("encode", "media"), ENCODINGS)
def test_of_a_trace_state_only_whether_some_are_kept_is_read(encode: Any, media: str) -> None:
    large = {"gen_ai.prompt": MARKER * 5_000}
    span = only(encode([agent(1, trace_state=f"ot=th:c;rv:{MARKER}", attributes=large)]), media)
    assert span.gaps == {"sampled"}
    assert MARKER not in repr([span, span.name, span.attributes])


@pytest.mark.parametrize(
    ("root", "child", "found"),
    [
        (0x101, 0x101, []),
        (0x100, 0x100, []),  # the stock exporter of Python: the trace flags are not filled in
        (0, 0, []),
        (0x101, 0x100, ["sampled"]),
        (0x100, 0x101, ["sampled"]),
        (0x101, 0x300, []),  # a remote parent: another program, whose exporter may leave the flags out
        (0x101, 0, []),
        (0x102, 0x102, ["sampled"]),  # flags are filled in, and the one for sampled is not among them
        (0x103, 0x103, []),
    ],
)
def test_a_span_recorded_without_the_sampled_flag_says_that_the_trace_was_sampled(
    root: int, child: int, found: list[str]
) -> None:
    assert gaps(agent(1, flags=root), chat(2, 1, flags=child)) == found


def test_a_gap_is_said_once_per_run_at_the_first_span_that_says_so() -> None:
    spans = [workflow(1), *(agent(n, 1, start=n, end=n + 1, trace_state="ot=th:c") for n in (2, 3, 4))]
    (found,) = receipts(read_spans(*spans), "recording_gap")
    assert (found.at[-10:], found.place, found.agent) == ("06.000000Z", "gap/sampled", None)


def test_a_gap_is_of_the_run_that_it_is_in() -> None:
    named = {"gen_ai.conversation.id": "c-2"}
    spans = [agent(1), agent(2, trace=2, attributes=named, trace_state="ot=th:c")]
    said = [[each.kind for each in run.receipts].count("recording_gap") for run in read_spans(*spans).runs]
    assert sorted(said) == [0, 1]


@pytest.mark.parametrize("dropped", [(1, 0, 0), (0, 1, 0), (0, 0, 1)], ids=["attributes", "events", "links"])
def test_an_agent_of_which_parts_were_dropped_may_lack_edges(dropped: tuple[int, int, int]) -> None:
    assert gaps(workflow(1), agent(2, 1, dropped=dropped)) == ["truncated"]


def test_a_span_whose_attributes_were_dropped_may_have_been_an_agent() -> None:
    assert gaps(agent(1), Sent(2, 1, dropped=(1, 0, 0))) == ["truncated"]
    assert gaps(agent(1), Sent(2, 1, dropped=(0, 1, 1))) == []


def test_what_no_edge_is_read_from_may_be_dropped() -> None:
    assert gaps(agent(1), chat(2, 1, dropped=(9, 9, 9)), tool(3, 1, dropped=(9, 9, 9))) == []


def test_a_link_without_its_kind_may_be_another_edge() -> None:
    cut = agent(3, 1, "billing", links=[(1, 2, "")], dropped_inside=1)
    assert gaps(workflow(1), agent(2, 1, "triage"), cut) == ["truncated"]
    whole = agent(3, 1, "billing", links=[(1, 2, "handoff")], dropped_inside=1)
    assert gaps(workflow(1), agent(2, 1, "triage"), whole) == []


def test_sampled_and_truncated_are_both_said() -> None:
    assert gaps(agent(1, trace_state="ot=th:c", dropped=(1, 0, 0))) == ["sampled", "truncated"]


def test_an_edge_whose_span_lost_events_says_nothing_of_how_it_went() -> None:
    spans = [agent(1, 0, "triage"), agent(2, 1, "billing", status=OK)]
    assert edges(read_spans(*spans)) == [("triage", "billing", "invoke", "ok")]
    cut = [spans[0], agent(2, 1, "billing", status=OK, dropped=(0, 1, 0))]
    assert edges(read_spans(*cut)) == [("triage", "billing", "invoke", "unset")]


def test_a_call_that_lost_events_may_wait_and_is_not_acknowledged() -> None:
    (answered,) = bodies(read_spans(agent(1), tool(2, 1, dropped=(0, 1, 0))), "effect_answered")
    assert answered["answer"] == "no_answer"


DONE = {"gen_ai.response.finish_reasons": ["stop"]}


@pytest.mark.parametrize(
    "member",
    [
        chat(2, 1, dropped=(0, 1, 0)),
        chat(2, 1, dropped=(1, 0, 0)),
        chat(2, 1, events=[("gen_ai.choice", {})], dropped_inside=1),
        inference(2, 1, kind="GUARDRAIL", dropped=(1, 0, 0)),
        tool(2, 1, dropped=(1, 0, 0)),
    ],
    ids=["events", "why it finished", "an event's", "what it is", "of a call"],
)
def test_an_end_that_is_good_only_as_far_as_spans_go_has_no_cause(member: Sent) -> None:
    assert cause(agent(1, status=OK), member) == (None, "ended")


@pytest.mark.parametrize(
    "member",
    [
        chat(2, 1, dropped=(1, 0, 0), attributes=DONE),
        chat(2, 1, dropped=(0, 0, 1)),
        chat(2, 1, exceptions=["ValueError"], dropped_inside=1),
    ],
    ids=["it says why", "links", "the type is there"],
)
def test_what_was_dropped_beside_the_end_changes_nothing_of_it(member: Sent) -> None:
    assert cause(agent(1, status=OK), member) == ("natural_finish", "claimed")


def test_an_end_that_shows_itself_keeps_its_cause() -> None:
    stopped = agent(1, status=2, exceptions=["TimeoutError"], dropped=(9, 9, 9))
    assert cause(stopped) == ("timeout", "ended")


def test_a_sampled_trace_keeps_what_its_loop_says() -> None:
    """The stop rules have no word for a sample; that it ended well is a claim in any case."""
    assert cause(agent(1, status=OK, trace_state="ot=th:c")) == ("natural_finish", "claimed")


def test_a_trace_of_which_something_is_no_longer_kept_is_truncated() -> None:
    spans = [agent(1, status=OK), agent(2, trace=2, status=OK)]
    found = OtlpImporter().read_beside(
        request(as_protobuf(spans), PROTOBUF), Earlier(cut=frozenset({f"{1:032x}"})), KEY
    )
    by_run = [
        ([each.body["gap"] for each in run.receipts if each.kind == "recording_gap"], run.receipts[-1].body)
        for run in found.runs
    ]
    assert [(said, stopped["stop_cause"]) for said, stopped in by_run] == [
        (["truncated"], None),
        ([], "natural_finish"),
    ]
