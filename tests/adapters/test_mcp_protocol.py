"""An MCP server is held to the protocol: what it breaks is said in a closed word, never as an empty list."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp_types.version import KNOWN_PROTOCOL_VERSIONS

from debugger.adapters.probes import mcp_session
from debugger.adapters.probes.mcp_answers import PROTOCOLS, AnswerUnfit, page_of
from debugger.adapters.probes.mcp_tools import McpToolsProbe
from tests.adapters.places import MARKER, MOMENT, target
from tests.patience import PATIENCE_S, ends

ODD_ANSWERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "what the protocol says": ({}, None),
    "an older version of it": ({"version": "2024-11-05"}, None),
    "a version that nobody knows": ({"version": f"2031-01-01 {MARKER}"}, "protocol_unknown"),
    "a server of the future alone": (
        {"discover": {"code": -32022, "message": MARKER,
                      "data": {"supported": ["2031-01-01"], "requested": "2026-07-28"}}},
        "protocol_unknown",
    ),
    "a version that is no text": ({"version": 7}, "answer_malformed"),
    "a greeting without its parts": ({"hello": {"serverInfo": MARKER}}, "answer_malformed"),
    "a server that offers no tools": ({"capabilities": {}}, "no_tools_offered"),
    "an answer without a list": ({"page": {"tools": None}}, "answer_malformed"),
    "an answer with something else": ({"page": {"tools": {"a": MARKER}}}, "answer_malformed"),
    "a cursor that is no text": ({"page": {"nextCursor": 7}}, "answer_malformed"),
    "an error": ({"error": {"code": -32603, "message": MARKER}}, "server_failed"),
}  # fmt: skip


@pytest.mark.parametrize("answer", ODD_ANSWERS)
def test_it_holds_a_server_to_the_protocol_and_says_in_a_word_what_it_broke(
    answer: str, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setattr(mcp_session, "TIMEOUT_S", PATIENCE_S)
    odd, problem = ODD_ANSWERS[answer]
    program = Path(__file__).with_name("mcp_odd.py")
    with ends():
        found = McpToolsProbe().measure(
            target(command=[sys.executable, str(program), json.dumps(odd)]), MOMENT
        )
    assert (found.problem, found.fingerprint is None) == (problem, problem is not None)
    assert MARKER not in repr(found) + caplog.text


def test_the_versions_it_knows_are_those_of_the_library_that_it_was_tested_with() -> None:
    assert PROTOCOLS == KNOWN_PROTOCOL_VERSIONS


def test_an_answer_that_wants_more_input_is_no_page() -> None:
    assert page_of({"tools": [], "resultType": "complete"}) == ([], None)
    with pytest.raises(AnswerUnfit):
        page_of({"tools": [], "resultType": "input_required"})
