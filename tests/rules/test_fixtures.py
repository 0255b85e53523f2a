"""Every public case of the decision rules gets the verdict it expects."""

import pytest
from rule_cases import KINDS, complete, fixtures, judge

from branches.rules import parse_branch

CASES = [(kind, case) for kind in KINDS for case in fixtures(kind)]


@pytest.mark.parametrize(("kind", "case"), CASES, ids=[f"{kind}: {case['name']}" for kind, case in CASES])
def test_it_judges_the_public_case(kind, case):
    found = judge(kind, case["input"])
    if "gates" in found:
        found["passed"] = {gate["gate"]: gate["passed"] for gate in found["gates"]}
    assert {field: found.get(field) for field in case["expect"]} == case["expect"]
    assert judge(kind, case) == judge(kind, case["input"])


@pytest.mark.parametrize("kind", KINDS)
def test_it_judges_the_complete_input_of_these_tests(kind):
    assert "error" not in judge(kind, complete(kind))


@pytest.mark.parametrize("case", fixtures("branches"), ids=lambda case: case["name"])
def test_it_writes_branch_facts_as_the_json_it_reads(case):
    facts = parse_branch(case["input"])
    assert parse_branch(facts.as_json()) == facts
    assert judge("branches", facts.as_json()) == judge("branches", case["input"])
