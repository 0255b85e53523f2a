"""What every built-in verifier keeps to: one suite over every place there is, and the person among them."""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from branches import registry
from branches.evidence.keys import is_hmac
from branches.ports import Baseline, Check, OutcomeCheck, OutcomeVerifier, Target
from tests.adapters import contracts
from tests.adapters.contracts import ODD, VERSION, WORD, ends_cleanly
from tests.adapters.places import MARKER, target
from tests.adapters.places_all import built_in
from tests.adapters.places_left import Place
from tests.adapters.places_left_all import VERIFIERS
from tests.adapters.talks import OPERATION, OTHER
from tests.patience import END_S

PERSON = "person"
NAMES = built_in("verifiers")
mail_server = contracts.mail_server
everything_is_logged = contracts.everything_is_logged
THIRD = "hmac-sha256:0badc0de:" + "3" * 64
OURS = frozenset({OPERATION})
# What only a destination reads of the same target.
UNREAD = {
    *(("sql_row", option) for option in ("query", "payload", "ref", "list_query")),
    *((kind, option) for kind in ("file", "document") for option in ("payload", "fields")),
    *(("imap", "absent"), ("imap", "payload"), ("git_ref", "payload"), ("deployment", "user_version")),
}


@pytest.fixture(params=VERIFIERS, ids=lambda place: place.__name__)
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    """A place where another run has left something already."""
    made = request.param(tmp_path, request)
    made.older()
    yield made
    made.close()


def baseline(place: Place) -> str:
    """The version that stands there, which lies behind whatever comes later."""
    found = registry.find("verifiers", place.kind).baseline(place.target(), place.expected)
    assert (found.reachable, found.problem) == (True, None)
    assert found.version is not None
    assert VERSION.fullmatch(found.version)
    time.sleep(0.02)  # a tick of the clock that a folder goes by
    return found.version


def check(place: Place, base: str | None, keys: frozenset[str] = OURS) -> OutcomeCheck:
    """Check twice: one state has one outcome."""
    plugin = registry.find("verifiers", place.kind)
    found = plugin.check(place.target(), place.expected, base, keys)
    assert plugin.check(place.target(), place.expected, base, keys) == found
    return found


def is_unreachable(seen: Baseline, found: OutcomeCheck) -> bool:
    """Whether neither says anything but a closed word."""
    words = (seen.problem or "", found.problem or "")
    plain = OutcomeCheck(Check.UNREACHABLE, problem=found.problem)
    return (
        (seen.version, seen.reachable) == (None, False) and found == plain and all(map(WORD.fullmatch, words))
    )


def test_every_built_in_verifier_has_a_place_in_this_suite() -> None:
    assert {PERSON, *(place.kind for place in VERIFIERS)} == set(NAMES)
    assert len(NAMES) >= 9


def test_nothing_new_since_the_baseline_is_not_fresh(place: Place, capfd: Any, caplog: Any) -> None:
    base = baseline(place)
    assert baseline(place) == base
    ours, theirs = check(place, base), check(place, base, frozenset({OTHER}))
    for found in (ours, theirs):
        assert (found.check, found.fresh) == (Check.FAILED, False)
        assert WORD.fullmatch(found.problem or "")
    assert MARKER not in base + repr((ours, theirs)) + caplog.text + "".join(capfd.readouterr())


def test_what_is_new_and_as_expected_passes_and_is_fresh(place: Place, capfd: Any, caplog: Any) -> None:
    base = baseline(place)
    place.put()
    found = check(place, base)
    assert (found.check, found.fresh, found.problem, found.difference) == (Check.PASSED, True, None, ())
    assert is_hmac(found.artifact or "")
    assert found.version not in (None, base)
    again = check(place, baseline(place))
    assert (again.check, again.fresh) == (Check.FAILED, False)
    assert MARKER not in repr((found, again)) + caplog.text + "".join(capfd.readouterr())


def test_what_is_new_and_not_as_expected_fails_and_says_in_what(
    place: Place, capfd: Any, caplog: Any
) -> None:
    base = baseline(place)
    place.put_other()
    found = check(place, base)
    assert (found.check, found.fresh) == (Check.FAILED, False)
    assert found.difference
    assert all(is_hmac(term) or WORD.fullmatch(term) for term in found.difference)
    assert WORD.fullmatch(found.problem or "")
    assert MARKER not in repr(found) + caplog.text + "".join(capfd.readouterr())


def test_what_another_run_made_is_not_fresh_where_the_target_says_how_a_key_is_carried(place: Place) -> None:
    base = baseline(place)
    place.put(THIRD)
    for keys in (OURS, frozenset[str]()):
        found = check(place, base, keys)
        assert found.fresh is not place.has_key
        assert (found.check is Check.PASSED) is not place.has_key


def test_a_place_that_is_gone_fails_or_talks_nonsense_is_unreachable(
    place: Place, capfd: Any, caplog: Any
) -> None:
    plugin, base = registry.find("verifiers", place.kind), baseline(place)
    place.put()
    seen = []
    for way, where in place.gone():
        first = plugin.baseline(where, place.expected)
        found = plugin.check(where, place.expected, base, OURS)
        assert is_unreachable(first, found), f"{way}: {first} {found}"
        assert found.problem != "target_unfit", way
        seen.append((first, found))
    assert len(seen) >= 3
    assert MARKER not in repr(seen) + caplog.text + "".join(capfd.readouterr())


def test_it_comes_to_an_end_at_a_place_that_does_not(place: Place, capfd: Any, caplog: Any) -> None:
    plugin, base = registry.find("verifiers", place.kind), baseline(place)
    place.put()
    with ends_cleanly(2 * END_S), place.stalling() as where:
        first = plugin.baseline(where, place.expected)
        found = plugin.check(where, place.expected, base, OURS)
    assert found.check is Check.UNREACHABLE
    assert not found.fresh
    opens_nothing_at_first = place.kind in {"file", "document"} and place.has_key
    assert is_unreachable(first, found) or opens_nothing_at_first
    assert MARKER not in repr((first, found)) + caplog.text + "".join(capfd.readouterr())


def test_it_raises_nothing_and_passes_nothing_whatever_stands_in_its_options(
    place: Place, caplog: Any
) -> None:
    plugin, base = registry.find("verifiers", place.kind), baseline(place)
    place.put()
    options = dict(place.target().options)
    for option, (odd, value) in itertools.product(options, ODD.items()):
        where = target(**{**options, option: value})
        first = plugin.baseline(where, place.expected)
        found = plugin.check(where, place.expected, base, OURS)
        said = f"{option}: {odd}: {first} {found}"
        assert first.reachable is (first.problem is None), said
        assert found.check is not Check.PASSED or (place.kind, option) in UNREAD, said
        assert (found.check is Check.UNREACHABLE) <= bool(WORD.fullmatch(found.problem or "")), said
        assert MARKER not in said + caplog.text


def test_an_outcome_that_was_not_declared_is_unfit(place: Place) -> None:
    base = baseline(place)
    place.put()
    found = registry.find("verifiers", place.kind).check(place.target(), MARKER, base, OURS)
    assert found == OutcomeCheck(Check.UNREACHABLE, problem="target_unfit")


@pytest.mark.parametrize("name", NAMES)
def test_it_fulfils_its_port_and_says_what_it_does_not_prove(name: str) -> None:
    plugin = registry.find("verifiers", name)
    assert isinstance(plugin, OutcomeVerifier)
    limits: str = getattr(plugin, "limits", "")
    assert limits.endswith(".")
    assert 40 < len(limits) < 260


@pytest.mark.parametrize("name", [each for each in NAMES if each != PERSON])
def test_it_never_guesses_where_its_options_are_missing(name: str) -> None:
    plugin = registry.find("verifiers", name)
    assert plugin.baseline(target(), "done") == Baseline(None, reachable=False, problem="target_unfit")
    found = plugin.check(target(), "done", "5", OURS)
    assert found == OutcomeCheck(Check.UNREACHABLE, problem="target_unfit")


@pytest.mark.parametrize("where", [target(), target(anything=MARKER)])
def test_a_person_has_a_baseline_and_no_machine_answers_for_one(where: Target) -> None:
    plugin = registry.find("verifiers", PERSON)
    assert plugin.baseline(where, "done") == Baseline(None, reachable=True)
    for base, keys in itertools.product((None, "5"), (OURS, frozenset[str]())):
        found = plugin.check(where, "done", base, keys)
        assert found == OutcomeCheck(Check.UNREACHABLE, problem="a_person_decides")
        assert not found.fresh
