"""What every built-in probe keeps to, whatever it measures: one suite over every place there is."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from branches import registry
from branches.evidence.domains import PART
from branches.evidence.keys import is_hmac
from branches.ports import StateMeasurement, StateProbe, Target, Unsupported
from tests.adapters import contracts
from tests.adapters.contracts import WORD
from tests.adapters.places import KEY, MARKER, MOMENT, Place
from tests.adapters.places_all import PLACES, built_in

NAMES = built_in("probes")
FACT = re.compile("[a-z0-9_.-]{1,32}")
KEEP_A_PAST = {
    "approval_journal", "branchgate_approvals", "langgraph_interrupts", "langgraph_memory",
    "openai_agents_memory",
}  # fmt: skip

everything_is_logged = contracts.everything_is_logged


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    made = request.param(tmp_path)
    yield made
    made.close()


def measured(place: Place, days: int = 0) -> StateMeasurement:
    """Measure, for a checkpoint that lies so many days later or earlier."""
    moment = replace(place.moment, at=place.moment.at + timedelta(days=days))
    return registry.find("probes", place.probe).measure(place.target(), moment)


def drifted(before: StateMeasurement, after: StateMeasurement) -> set[str]:
    both = before.parts.keys() | after.parts.keys()
    return {part for part in both if before.parts.get(part) != after.parts.get(part)}


def test_every_built_in_probe_has_a_place_in_this_suite() -> None:
    assert {place.probe for place in PLACES} == set(NAMES)
    assert len(NAMES) >= 13


def test_it_measures_the_same_state_as_the_same_and_another_as_another(
    place: Place, caplog: Any, capfd: Any
) -> None:
    first = measured(place)
    assert (first.reachable, first.problem) == (True, None)
    assert first.fingerprint is not None
    assert is_hmac(first.fingerprint)
    assert measured(place, days=400) == first
    place.change()
    changed = measured(place)
    assert (changed.reachable, changed.problem) == (True, None)
    assert changed.fingerprint not in (None, first.fingerprint)
    assert drifted(first, changed) == {KEY.digest(PART, name) for name in place.drifts}
    place.change_back()
    assert measured(place, days=-400) == first
    for found in (first, changed):
        assert all(is_hmac(digest) for pair in found.parts.items() for digest in pair)
        assert all(map(WORD.fullmatch, found.facts))
        assert all(isinstance(fact, int) or FACT.fullmatch(fact) for fact in found.facts.values())
        assert json.loads(json.dumps(found.facts)) == found.facts
    assert MARKER not in repr((first, changed)) + caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize("kind", [each for each in PLACES if each.is_listed], ids=lambda kind: kind.__name__)
def test_another_order_of_listing_is_no_other_state(tmp_path: Path, kind: type[Place]) -> None:
    place = kind(tmp_path)
    try:
        first = measured(place)
        place.turn()
        turned = measured(place)
    finally:
        place.close()
    assert turned.fingerprint is not None
    assert (turned == first) is not place.order_counts


def test_it_says_nothing_good_of_a_place_that_is_gone(place: Place, capfd: Any, caplog: Any) -> None:
    place.take_away()
    found = measured(place)
    assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
    assert WORD.fullmatch(found.problem or "")
    assert MARKER not in repr(found) + "".join(capfd.readouterr()) + caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_it_fulfils_its_port_and_says_what_it_does_not_cover(name: str) -> None:
    probe = registry.find("probes", name)
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260


@pytest.mark.parametrize("name", NAMES)
def test_it_never_guesses_where_its_options_are_missing(name: str) -> None:
    found = registry.find("probes", name).measure(Target("here", {}, KEY), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "target_unfit")


@pytest.mark.parametrize("name", NAMES)
def test_it_has_a_past_only_where_something_keeps_one(name: str) -> None:
    probe = registry.find("probes", name)
    if name not in KEEP_A_PAST:
        with pytest.raises(Unsupported):
            probe.capture(Target("here", {}, KEY), MOMENT)
        return
    found = probe.capture(Target("here", {}, KEY), MOMENT)
    assert found.fingerprint is None
    assert WORD.fullmatch(found.problem or "")
