"""Each pattern's contract holds together, its good run is healthy, and its bad one breaks it as it says."""

import json
from typing import Any

import pytest
from django.core.management import call_command

from branches.rules.topology import judge_topology, parse_topology
from debugger import contracts

PATTERNS = [
    "agent_to_agent", "concurrent", "dynamic_registry", "group_chat", "handoff", "magentic", "maker_checker",
    "mcp_layer", "network", "semantic_router", "sequential", "skill_chaining", "supervisor_local_remote",
]  # fmt: skip

STAGES = {
    "agent_to_agent": ["offer", "deal"],
    "concurrent": ["fan_out", "fan_in"],
    "dynamic_registry": ["register", "evaluate", "use"],
    "group_chat": ["round", "gather"],
    "handoff": ["intake", "case", "escalation"],
    "magentic": ["plan", "task", "approved_task", "replan"],
    "maker_checker": ["propose", "check", "accept"],
    "mcp_layer": ["task"],
    "network": ["round"],
    "semantic_router": ["classify", "case", "fallback"],
    "sequential": ["draft", "review", "publish"],
    "skill_chaining": ["plan", "work"],
    "supervisor_local_remote": ["classify", "task", "local", "remote"],
}
OPTIONAL = {"handoff": ["billing>technical:handoff"], "mcp_layer": ["writer>mail-server:call"]}

type Expected = str | list[str]


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
    assert (state, list(reasons)) == (template["breaks"]["verdict"], template["breaks"]["reasons"])
    assert reasons


@pytest.mark.parametrize("name", PATTERNS)
def test_its_good_run_without_a_receipt_only_says_that_it_is_complete(name: str) -> None:
    assert judged(contracts.template(name), "passes", outcome_receipt=False) == (
        "false_complete",
        ("no_outcome_receipt",),
    )


def shown_by(expectations: list[Expected]) -> list[str]:
    """The fewest edges that a run needs for what a phase expects: of each choice the first."""
    return list(dict.fromkeys(each if isinstance(each, str) else each[0] for each in expectations))


def of_phase(name: str, phase: str, without: str = "") -> tuple[str, tuple[str, ...]]:
    """Judge a run of a phase that did what is expected of it, all or but one edge."""
    contract = contracts.template(name)["contract"]
    by_key = {f"{edge['from']}>{edge['to']}:{edge['kind']}": edge for edge in contract["edges"]}
    keys = [key for key in shown_by(contract["phases"][phase]) if key != without]
    events = [{end: by_key[key][end] for end in ("from", "to", "kind")} | {"status": "ok"} for key in keys]
    return judged({"contract": contract, "run": {"phase": phase, "events": events}}, "run")


@pytest.mark.parametrize("name", PATTERNS)
def test_it_has_the_stages_of_its_pattern(name: str) -> None:
    assert list(contracts.template(name)["contract"]["phases"]) == STAGES[name]


@pytest.mark.parametrize(("name", "phase"), [(name, each) for name in PATTERNS for each in STAGES[name]])
def test_each_stage_is_healthy_with_what_it_expects_and_not_without_any_of_it(name: str, phase: str) -> None:
    assert of_phase(name, phase) == ("healthy", ())
    for expected in contracts.template(name)["contract"]["phases"][phase]:
        choice = [expected] if isinstance(expected, str) else expected
        missing = "|".join(sorted(choice))
        assert of_phase(name, phase, without=choice[0]) == ("false_complete", (missing,))


@pytest.mark.parametrize("name", PATTERNS)
def test_no_edge_is_there_that_no_run_of_the_pattern_is_told_of(name: str) -> None:
    """What no phase expects is a step back or aside, which a run may do without: each of them is listed."""
    contract = contracts.template(name)["contract"]
    told = {
        key
        for expectations in contract["phases"].values()
        for each in expectations
        for key in ([each] if isinstance(each, str) else each)
    }
    keys = {f"{edge['from']}>{edge['to']}:{edge['kind']}" for edge in contract["edges"]}
    assert sorted(keys - told) == OPTIONAL.get(name, [])


def test_no_contract_has_a_wildcard() -> None:
    for name in PATTERNS:
        assert "*" not in json.dumps(contracts.template(name)["contract"])


def test_the_command_lists_the_patterns_and_prints_one(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("contract_template")
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == PATTERNS
    call_command("contract_template", "handoff")
    assert json.loads(capsys.readouterr().out) == contracts.template("handoff")["contract"]
