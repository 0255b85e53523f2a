"""Each pattern's contract holds together, its good run is healthy, and its bad one breaks it as it says."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from branches.queries.topology_graph import drawn
from branches.rules.topology import judge_topology, parse_topology
from debugger import contracts

PATTERNS = [
    "agent_to_agent", "concurrent", "dynamic_registry", "group_chat", "handoff", "magentic", "maker_checker",
    "mcp_layer", "network", "semantic_router", "sequential", "skill_chaining", "supervisor_local_remote",
]  # fmt: skip


def judged(template: dict[str, Any], run: str, **changed: Any) -> tuple[str, tuple[str, ...]]:
    """Judge one of a template's runs, ended and with an independent receipt."""
    facts = {
        "contract": template["contract"],
        "run": {
            "pinned_version": template["contract"]["version"],
            "phase": template[run]["phase"],
            "parent_terminal": True,
            "outcome_receipt": True,
            "evidence": "complete",
            "now": "2026-11-30T10:00:00Z",
            "deadline": None,
            "dependency": None,
            "last_progress_at": None,
            **changed,
        },
        "events": [
            {
                **event,
                "event_id": f"e{number}",
                "version": template["contract"]["version"],
                "at": "2026-11-30T09:00:00Z",
            }
            for number, event in enumerate(template[run]["events"])
        ],
    }
    verdict = judge_topology(parse_topology(facts))
    return str(verdict.verdict), verdict.reasons


def test_there_is_a_template_for_each_of_the_thirteen_patterns() -> None:
    assert list(contracts.names()) == PATTERNS


@pytest.mark.parametrize("name", PATTERNS)
def test_its_good_run_is_healthy(name: str) -> None:
    assert judged(contracts.template(name), "passes") == ("healthy", ())


@pytest.mark.parametrize("name", PATTERNS)
def test_its_bad_run_breaks_it_as_it_says(name: str) -> None:
    template = contracts.template(name)
    state, reasons = judged(template, "breaks")
    assert state == template["breaks"]["verdict"]
    assert reasons


@pytest.mark.parametrize("name", PATTERNS)
def test_its_good_run_without_a_receipt_only_says_that_it_is_complete(name: str) -> None:
    assert judged(contracts.template(name), "passes", outcome_receipt=False) == (
        "false_complete",
        ("no_outcome_receipt",),
    )


def test_no_contract_has_a_wildcard() -> None:
    for name in PATTERNS:
        assert "*" not in json.dumps(contracts.template(name)["contract"])


def test_the_command_lists_the_patterns_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("contract_template")
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == PATTERNS
    call_command("contract_template", "handoff")
    assert json.loads(capsys.readouterr().out) == contracts.template("handoff")["contract"]


class Edge:
    def __init__(self, source: str, target: str) -> None:
        self.source, self.target, self.state, self.count = source, target, "ok", 1


def test_a_picture_of_forty_agents_overlaps_nothing() -> None:
    agents = [f"a{number}" for number in range(40)]
    edges = [Edge(f"a{number}", f"a{(number * 7 + 3) % 40}") for number in range(40)]
    graph = drawn(agents, edges)
    places = {(box.x, box.y) for box in graph.boxes}
    assert len(places) == len(graph.boxes) == 40
    assert all(box.x + graph.box_width <= graph.width for box in graph.boxes)
    assert all(box.y + graph.box_height <= graph.height for box in graph.boxes)
    assert len(graph.lines) == len([edge for edge in edges if edge.source != edge.target])


def test_a_picture_of_a_loop_and_of_nothing_is_drawn() -> None:
    graph = drawn(["a", "b"], [Edge("a", "b"), Edge("b", "a"), Edge("a", "a")])
    assert [box.agent for box in graph.boxes] == ["a", "b"]
    assert len(graph.lines) == 2
    assert drawn([], []).boxes == ()
