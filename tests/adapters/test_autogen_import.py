"""Saved states, results and streams of real AutoGen teams: each gives its run, stop and hand-overs."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.models import Receipt
from branches.ports import SourceFile, SourceRead, SourceRun
from debugger.adapters.runtimes.autogen import AutoGenImporter
from tests.adapters.source_runs import (
    a_file,
    bodies,
    check,
    edges,
    effects,
    everything,
    handoff_verdicts,
    read,
    stop_states,
    stop_verdict,
)

SAVED = Path(__file__).with_name("data") / "autogen"
NAMES = sorted(path.stem for path in SAVED.glob("*.json"))
IMPORTER = AutoGenImporter()
MARKER = "CONTENT-MARKER-7f3a"

STOPS = {
    "function_result": ["false_complete"],
    "function_state": ["uncertain"],
    "handoff_result": ["false_complete"],
    "handoff_state": ["uncertain"],
    "max_messages_result1": ["bounded_stop"],
    "max_messages_result2": ["bounded_stop"],
    "max_messages_state": ["uncertain"],
    "max_turns_result": ["bounded_stop"],
    "max_turns_state": ["uncertain"],
    "mention_result": ["false_complete"],
    "model_error_state": ["uncertain"],
    "stopped_result2": ["stuck"],
    "stopped_state": ["uncertain"],
    "timeout_result": ["stuck"],
    "to_user_result": ["waiting_unrouted"],
    "to_user_state": ["waiting_unrouted"],
    "token_limit_result": ["bounded_stop"],
    "tool_error_result": ["failed"],
    "tool_error_state": ["failed"],
}


def file_of(name: str) -> SourceFile:
    return SourceFile(name, (SAVED / f"{name}.json").read_bytes())


def saved(name: str) -> Any:
    return json.loads((SAVED / f"{name}.json").read_bytes())


def the_run(*files: SourceFile) -> SourceRun:
    found = read(IMPORTER, *files)
    assert found.refused == ()
    (run,) = found.runs
    check(run)
    return run


def refusals(found: SourceRead) -> list[tuple[str, str]]:
    return [(each.field, each.rule) for each in found.refused]


@pytest.mark.parametrize("name", NAMES)
def test_every_file_gives_its_stop_and_none_of_its_words(name: str) -> None:
    found = read(IMPORTER, file_of(name))
    (run,) = found.runs
    check(run)
    assert MARKER in (SAVED / f"{name}.json").read_text()
    assert MARKER not in everything(found)
    assert stop_states(run) == STOPS[name]


def test_a_state_alone_never_says_why_the_team_stopped() -> None:
    (stopped,) = bodies(the_run(file_of("max_messages_state")), "stopped")
    assert list(stop_verdict(stopped).reasons) == ["cause_not_recorded"]


def test_files_that_share_a_message_are_one_run() -> None:
    names = ("max_messages_state", "max_messages_result1", "max_messages_result2")
    run = the_run(*map(file_of, names))
    assert run == the_run(*map(file_of, reversed(names)))
    assert stop_states(run) == ["bounded_stop", "bounded_stop"]
    assert len(bodies(run, "message")) == len(
        saved(names[0])["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
    )
    assert len(read(IMPORTER, file_of("mention_result"), file_of("timeout_result")).runs) == 2


def test_a_stream_is_its_result_and_without_one_its_end_is_not_known() -> None:
    result = saved("handoff_result")
    whole = the_run(a_file("a", [*result["messages"], {"stop_reason": result["stop_reason"]}]))
    again = the_run(a_file("a", [*result["messages"], result]))
    assert whole == again == the_run(file_of("handoff_result"))
    assert stop_states(the_run(a_file("a", result["messages"]))) == ["uncertain"]


def test_a_hand_over_is_accepted_by_what_its_target_says_first() -> None:
    run = the_run(file_of("handoff_result"))
    assert [each["event"] for each in bodies(run, "handoff")] == ["delegated", "accepted", "completed"]
    assert {name: str(each.state) for name, each in handoff_verdicts(run).items()} == {"bob": "false_success"}
    assert edges(run) == ["alice>bob:handoff ok"]
    assert effects(run) == [("look_up", "acknowledged")]  # what only hands over is no effect


def test_a_hand_over_to_a_person_is_a_wait() -> None:
    run = the_run(file_of("to_user_state"))
    assert {name: list(each.reasons) for name, each in handoff_verdicts(run).items()} == {
        "bob": ["dependency:approval"]
    }


def test_a_message_in_the_buffer_and_in_the_context_is_counted_once_and_named() -> None:
    found = read(IMPORTER, file_of("model_error_state"))
    assert refusals(found) == [
        ("agent_states.*.message_buffer.0", "doubled_message"),
        ("agent_states.*.message_buffer.1", "doubled_message"),
    ]
    (run,) = found.runs
    assert [each["consistent"] for each in bodies(run, "checkpoint")] == [False]
    ids = [each["message"] for each in bodies(run, "message")]
    assert len(ids) == len(set(ids)) == 2


def test_a_text_that_was_really_said_twice_is_not_doubled() -> None:
    state = saved("max_messages_state")
    bob = state["agent_states"]["bob"]
    thread = state["agent_states"]["RoundRobinGroupChatManager"]["message_thread"]
    said = next(each for each in thread if each["source"] == "alice")
    again = {**said, "id": "again", "created_at": "2999-01-01T00:00:00Z"}
    thread.append(again)
    bob["message_buffer"].append(again)
    assert refusals(read(IMPORTER, a_file("a", state))) == []
    bob["message_buffer"].append(again)
    assert refusals(read(IMPORTER, a_file("a", state))) == [
        (f"agent_states.*.message_buffer.{len(bob['message_buffer']) - 1}", "doubled_message")
    ]


def test_a_function_that_nobody_called_ends_nothing() -> None:
    result = saved("function_result")
    result["stop_reason"] = "Function 'never_called' was executed."
    (stopped,) = bodies(the_run(a_file("a", result)), "stopped")
    assert list(stop_verdict(stopped).reasons) == ["cause_not_recorded"]


def test_a_limit_that_the_messages_do_not_bear_out_is_uncertain() -> None:
    result = saved("max_messages_result1")
    result["messages"] = result["messages"][:-1]
    (stopped,) = bodies(the_run(a_file("a", result)), "stopped")
    assert list(stop_verdict(stopped).reasons) == ["step_limit_not_reached"]


def state_with(**changed: Any) -> Any:
    return {**saved("max_turns_state"), **changed}


def message_with(**changed: Any) -> Any:
    result = saved("max_turns_result")
    result["messages"][1] |= changed
    return result


@pytest.mark.parametrize(
    ("value", "field", "rule"),
    [
        ({}, "agent_states", "not_a_run"),
        ([], "messages", "empty"),
        ("x", "(whole)", "object"),
        (1, "(whole)", "object"),
        ({"messages": [], "stop_reason": None}, "messages", "empty"),
        ({"messages": {}, "stop_reason": None}, "messages", "list"),
        ({**saved("max_turns_result"), "stop_reason": 7}, "stop_reason", "text"),
        (state_with(type="BaseState"), "type", "unknown"),
        (state_with(version="2.0.0"), "version", "version_unknown"),
        (state_with(team_id=MARKER), "team_id", "version_unknown"),
        (state_with(agent_states=[]), "agent_states", "object"),
        (state_with(agent_states={}), "agent_states", "one_thread"),
        (state_with(agent_states={MARKER: 1}), "agent_states.*", "object"),
        (state_with(agent_states={"m": {"message_thread": 1}}), "agent_states.*.message_thread", "list"),
        (state_with(agent_states={"m": {"message_thread": []}}), "agent_states.*.message_thread", "empty"),
        (message_with(id=""), "messages.1.id", "empty"),
        (message_with(id=None), "messages.1.id", "text"),
        (message_with(source=[MARKER]), "messages.1.source", "text"),
        (message_with(created_at=MARKER), "messages.1.created_at", "timestamp"),
        (message_with(created_at=None), "messages.1.created_at", "timestamp"),
        (message_with(models_usage=[]), "messages.1.models_usage", "object"),
        (message_with(models_usage={"prompt_tokens": -1}), "messages.1.models_usage.prompt_tokens", "range"),
        (message_with(type="HandoffMessage"), "messages.1.target", "required"),
        (message_with(type="ToolCallRequestEvent"), "messages.1.content", "list"),
        (message_with(type="ToolCallRequestEvent", content=[1]), "messages.1.content.0", "object"),
        (message_with(content="x" * 10_000_000), "messages.1.content", "max_length"),
        (message_with(content="\ud800"), "messages.1.content", "unicode"),
        (message_with(**{MARKER: "x" * 10_000_000}), "messages.1.*", "max_length"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_field_and_rule(value: Any, field: str, rule: str) -> None:
    found = read(IMPORTER, a_file("a", value))
    assert refusals(found) == [(field, rule)]
    assert found.runs == ()
    assert MARKER not in everything(found)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "json"),
        (b"{", "json"),
        (b"\xff", "encoding"),
        (b'{"a": 1, "a": 2}', "duplicate_key"),
        (b'{"a": NaN}', "number"),
        (b"[" * 100_000, "nesting"),
        (b'{"messages": ' + b"[" * 80 + b"]" * 80 + b', "stop_reason": null}', "nesting"),
        (b'"' + b"x" * (33 * 1024 * 1024) + b'"', "too_large"),
    ],
)
def test_a_file_that_is_no_document_is_refused(content: bytes, rule: str) -> None:
    found = read(IMPORTER, SourceFile("a", content), file_of("mention_result"))
    assert [each.rule for each in found.refused] == [rule]
    assert len(found.runs) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_wrong_value_anywhere_gives_a_run_or_a_refusal_and_never_an_error(data: st.DataObject) -> None:
    value = saved(data.draw(st.sampled_from(NAMES)))
    place = value
    while isinstance(place, (dict, list)) and place:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    found = read(IMPORTER, SourceFile("a", json.dumps(value).encode("utf-8", "surrogatepass")))
    assert MARKER not in everything(found)
    for run in found.runs:
        check(run)
        stop_states(run)


@pytest.mark.django_db
def test_the_command_prints_one_object_a_run_and_again_adds_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)
    paths = [str(SAVED / f"{name}.json") for name in ("handoff_state", "handoff_result", "mention_result")]

    def imported() -> list[dict[str, Any]]:
        call_command("import", "autogen", *paths)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    first, again = imported(), imported()
    assert [set(each) for each in first] == [
        {"run", "accepted", "duplicates", "refused", "stops", "handoffs", "topology"}
    ] * 2
    assert [each["stops"][0]["state"] for each in first] == ["false_complete"] * 2
    assert [each["state"] for each in first[0]["handoffs"]] == ["false_success"]
    assert [(each["accepted"], each["duplicates"]) for each in again] == [
        (0, each["accepted"]) for each in first
    ]
    stored = "".join(Receipt.objects.values_list("body", flat=True))
    assert MARKER not in stored + json.dumps(first)
    assert "alice" not in stored
