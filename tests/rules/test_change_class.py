"""The change class follows from facts: the worst wins, what is declared only raises, ancestors count."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.rules.change_class import ChangeClass, ClassFacts, Fact, Reach, Settled, judge_class

CONFINED = ClassFacts(True, (Reach("note", "irreversible", "sandbox", is_fixture=True),), (), (), (), False)
READER = Reach("look_up", "read", "wiki", is_fixture=False)
WRITER = Reach("ticket", "reversible", "desk", is_fixture=False)
SENDER = Reach("send_mail", "irreversible", "mail", is_fixture=False)


@pytest.mark.parametrize(
    ("facts", "expected", "fact"),
    [
        (CONFINED, "C1", Fact.REACHES_NOTHING),
        (replace(CONFINED, reaches=(READER,)), "C2", Fact.READS_OUTSIDE),
        (replace(CONFINED, changed_keys=("prompt",)), "C2", Fact.CONFIGURATION_CHANGED),
        (replace(CONFINED, has_own_outcome=True), "C2", Fact.OWN_OUTCOME),
        (replace(CONFINED, reaches=(READER, WRITER)), "C3", Fact.WRITES_REVERSIBLY),
        (replace(CONFINED, settled=(Settled("op", "reconciled", False),)), "C3", Fact.EFFECT_SETTLED),
        (replace(CONFINED, settled=(Settled("op", "reverted", False),)), "C3", Fact.EFFECT_SETTLED),
        (replace(CONFINED, changed_keys=("recipients",)), "C3", Fact.CONFIGURATION_CHANGED),
        (replace(CONFINED, kinds=("budget",)), "C3", Fact.KIND_DECLARED),
        (replace(CONFINED, reaches=(WRITER, SENDER)), "C4", Fact.WRITES_IRREVERSIBLY),
        (
            replace(CONFINED, reaches=(replace(WRITER, effect_class="unknown"),)),
            "C4",
            Fact.EFFECT_CLASS_UNKNOWN,
        ),
        (replace(CONFINED, settled=(Settled("op", "irreversible", True),)), "C4", Fact.IRREVERSIBLE_DECIDED),
        (replace(CONFINED, kinds=("permissions",)), "C4", Fact.KIND_DECLARED),
        (replace(CONFINED, kinds=("target",)), "C4", Fact.KIND_DECLARED),
        (replace(CONFINED, kinds=("destructive",)), "C4", Fact.KIND_DECLARED),
        (replace(CONFINED, is_declared=False, reaches=()), "C4", Fact.UNDECLARED),
    ],
)
def test_a_fact_gives_its_class_and_is_named(facts: ClassFacts, expected: str, fact: Fact) -> None:
    verdict = judge_class(facts)
    assert verdict.change_class == expected
    assert {each.fact for each in verdict.because} == {fact}


def test_what_was_decided_on_an_ancestor_counts_and_is_said_to_be_the_ancestors() -> None:
    verdict = judge_class(CONFINED, [replace(CONFINED, settled=(Settled("op", "irreversible", True),))])
    assert verdict.change_class is ChangeClass.C4
    assert [each.of_ancestor for each in verdict.because] == [True]


def test_a_write_to_nowhere_declared_is_no_fixture() -> None:
    nowhere = replace(WRITER, destination=None)
    assert judge_class(replace(CONFINED, reaches=(nowhere,))).change_class is ChangeClass.C3


_reaches = st.builds(
    Reach,
    st.sampled_from(["a", "b"]),
    st.sampled_from(["read", "reversible", "irreversible", "unknown"]),
    st.sampled_from([None, "desk"]),
    st.booleans(),
)
_facts = st.builds(
    ClassFacts,
    st.booleans(),
    st.lists(_reaches, max_size=3).map(tuple),
    st.lists(st.builds(Settled, st.just("op"), st.sampled_from(["pending", "reverted"]), st.booleans())).map(
        tuple
    ),
    st.lists(st.sampled_from(["prompt", "recipients", "permissions"]), max_size=2).map(tuple),
    st.just(()),
    st.booleans(),
)


@settings(deadline=None)
@given(
    _facts, st.lists(_facts, max_size=2), st.sampled_from(["budget", "recipients", "target", "destructive"])
)
def test_saying_more_only_raises_the_class(facts: ClassFacts, ancestors: list[ClassFacts], kind: str) -> None:
    before = judge_class(facts, ancestors).change_class
    assert judge_class(replace(facts, kinds=(kind,)), ancestors).change_class.rank >= before.rank
    assert judge_class(facts, [*ancestors, facts]).change_class.rank >= before.rank
    assert judge_class(facts).change_class.rank <= before.rank
