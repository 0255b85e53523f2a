"""What every built-in destination keeps to: one suite over every place there is."""

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from branches import registry
from branches.evidence.keys import is_hmac
from branches.ports import Answer, DestinationAnswer, DestinationQuery, ListsArrivals, Question
from tests.adapters import contracts
from tests.adapters.contracts import ODD, VERSION, WORD, ends_cleanly
from tests.adapters.places import MARKER, target
from tests.adapters.places_all import built_in
from tests.adapters.places_left import TOOL, Place
from tests.adapters.places_left_all import DESTINATIONS
from tests.adapters.talks import OPERATION, OTHER

NAMES = built_in("destinations")
mail_server = contracts.mail_server
everything_is_logged = contracts.everything_is_logged


@pytest.fixture(params=DESTINATIONS, ids=lambda place: place.__name__)
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    made = request.param(tmp_path, request)
    yield made
    made.close()


def ask(place: Place, sent: str | None = None) -> DestinationAnswer:
    """Ask twice: one state has one answer."""
    plugin = registry.find("destinations", place.kind)
    question = Question(OPERATION, TOOL, sent)
    found = plugin.ask(place.target(), question)
    assert plugin.ask(place.target(), question) == found
    return found


def is_unknown(found: DestinationAnswer) -> bool:
    """Whether it says nothing but a closed word."""
    said = (found.answer, found.fingerprint, found.version, found.ref)
    return said == (Answer.UNKNOWN, None, None, None) and bool(WORD.fullmatch(found.problem or ""))


def test_every_built_in_destination_has_a_place_in_this_suite() -> None:
    assert {place.kind for place in DESTINATIONS} == set(NAMES)
    assert len(NAMES) >= 6


def test_it_tells_an_absent_operation_a_present_one_and_a_changed_one_apart(
    place: Place, capfd: Any, caplog: Any
) -> None:
    absent = ask(place)
    assert (absent.answer, absent.problem) == (Answer.ABSENT, None)
    place.put(OTHER)
    assert ask(place).answer is Answer.ABSENT
    place.put()
    present = ask(place, sent=place.sent)
    assert (present.answer, present.fingerprint, present.problem) == (Answer.PRESENT, place.sent, None)
    unasked = ask(place)
    assert (unasked.answer, unasked.fingerprint) == (Answer.PRESENT, place.sent)
    place.put_other()
    changed = ask(place, sent=place.sent)
    assert (changed.answer, changed.problem) == (Answer.CHANGED, None)
    assert changed.fingerprint not in (None, present.fingerprint)
    for found in (present, changed):
        assert is_hmac(found.fingerprint or "")
        assert found.ref is None or is_hmac(found.ref)
        assert found.version is None or VERSION.fullmatch(found.version)
    assert MARKER not in repr((absent, present, changed)) + caplog.text + "".join(capfd.readouterr())


def test_it_says_unknown_of_a_place_that_is_gone_fails_or_talks_nonsense(
    place: Place, capfd: Any, caplog: Any
) -> None:
    plugin = registry.find("destinations", place.kind)
    place.put()
    seen = []
    for way, where in itertools.chain(place.half(), place.gone()):
        for _ in range(2):
            found = plugin.ask(where, Question(OPERATION, TOOL, place.sent))
            assert is_unknown(found), f"{way}: {found}"
            assert found.problem != "target_unfit", way
            seen.append(found)
    assert len(seen) >= 6
    assert MARKER not in repr(seen) + caplog.text + "".join(capfd.readouterr())


def test_it_comes_to_an_end_at_a_place_that_does_not(place: Place, capfd: Any, caplog: Any) -> None:
    place.put()
    plugin = registry.find("destinations", place.kind)
    with ends_cleanly(), place.stalling() as where:
        found = plugin.ask(where, Question(OPERATION, TOOL, None))
    assert is_unknown(found)
    assert MARKER not in repr(found) + caplog.text + "".join(capfd.readouterr())


def test_it_lists_everything_since_a_moment_and_nothing_before_it(
    place: Place, capfd: Any, caplog: Any
) -> None:
    plugin, where = registry.find("destinations", place.kind), place.target()
    if not isinstance(plugin, ListsArrivals):
        assert not place.lists
        return
    assert plugin.lists(where) is place.lists
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    if not place.lists:
        assert plugin.arrivals(where, now - hour) is None
        return
    place.put(OTHER)
    place.put()
    listed = plugin.arrivals(where, now - hour)
    assert listed is not None
    assert sorted(str(each.operation_key) for each in listed) == sorted([OPERATION, OTHER])
    assert all(is_hmac(each.ref) for each in listed)
    assert len({each.ref for each in listed}) == 2
    assert plugin.arrivals(where, now - hour) == listed
    if place.tells_times:
        assert all(each.at is not None and abs(each.at - now) < hour for each in listed)
        assert plugin.arrivals(where, now + hour) == []
    else:
        assert [each.at for each in listed] == [None, None]
        assert plugin.arrivals(where, now + hour) == listed
    assert MARKER not in repr(listed) + caplog.text + "".join(capfd.readouterr())


def test_it_lists_nothing_where_the_list_breaks_off(place: Place, caplog: Any) -> None:
    plugin = registry.find("destinations", place.kind)
    if not isinstance(plugin, ListsArrivals):
        assert not place.lists
        return
    place.put()
    moment = datetime.now(UTC) - timedelta(hours=1)
    for way, where in place.gone():
        assert plugin.arrivals(where, moment) is None, way
    assert plugin.arrivals(target(), moment) is None
    assert MARKER not in caplog.text


def test_it_raises_nothing_and_says_a_word_whatever_stands_in_its_options(place: Place, caplog: Any) -> None:
    plugin = registry.find("destinations", place.kind)
    place.put()
    options = dict(place.target().options)
    for option, (odd, value) in itertools.product(options, ODD.items()):
        where = target(**{**options, option: value})
        found = plugin.ask(where, Question(OPERATION, TOOL, place.sent))
        said = f"{option}: {odd}: {found}"
        assert (found.answer is Answer.UNKNOWN) == (found.problem is not None), said
        assert found.answer is not Answer.UNKNOWN or is_unknown(found), said
        assert found.answer is not Answer.ABSENT, said
        if isinstance(plugin, ListsArrivals):
            said += repr((plugin.lists(where), plugin.arrivals(where, datetime.now(UTC))))
        assert MARKER not in said + caplog.text


@pytest.mark.parametrize("name", NAMES)
def test_it_fulfils_its_port_and_says_what_it_does_not_cover(name: str) -> None:
    plugin = registry.find("destinations", name)
    assert isinstance(plugin, DestinationQuery)
    limits: str = getattr(plugin, "limits", "")
    assert limits.endswith(".")
    assert 40 < len(limits) < 260


@pytest.mark.parametrize("name", NAMES)
def test_it_never_guesses_where_its_options_are_missing(name: str) -> None:
    plugin = registry.find("destinations", name)
    found = plugin.ask(target(), Question(OPERATION, TOOL, None))
    assert found == DestinationAnswer(Answer.UNKNOWN, problem="target_unfit")
    if isinstance(plugin, ListsArrivals):
        assert not plugin.lists(target())
        assert plugin.arrivals(target(), datetime.now(UTC)) is None
