"""How every built-in probe ends: at a place that stalls, and with options that nobody could have meant."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from branches import registry
from tests.adapters import contracts
from tests.adapters.contracts import ODD, WORD, ends_cleanly
from tests.adapters.places import MARKER, MOMENT, Place, target
from tests.adapters.places_all import PLACES, built_in

everything_is_logged = contracts.everything_is_logged

# What is odd to a file system may be a key to Redis, or a page of a site.
MEANT = {
    ("http_session", "path", "a name too long"),
    *(("queue", "name", odd) for odd in ("a zero byte", "a name too long", "a path too long")),
}


@pytest.fixture(params=PLACES, ids=lambda place: place.__name__)
def place(request: Any, tmp_path: Path) -> Iterator[Place]:
    made = request.param(tmp_path)
    yield made
    made.close()


def test_it_comes_to_an_end_at_a_place_that_does_not(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    probe = registry.find("probes", place.probe)
    with ends_cleanly(), place.stalling(monkeypatch) as where:
        found = probe.measure(where, place.moment)
    assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
    assert WORD.fullmatch(found.problem or "")
    assert found.problem != "target_unfit"
    assert MARKER not in repr(found) + "".join(capfd.readouterr()) + caplog.text


def test_it_raises_nothing_and_says_a_word_whatever_stands_in_its_options(place: Place, caplog: Any) -> None:
    probe, options = registry.find("probes", place.probe), dict(place.target().options)
    if place.probe == "browser":  # it is looked for last
        options["chromium"] = "/no/such/program"
    for option, (odd, value) in itertools.product(options, ODD.items()):
        found = probe.measure(target(**{**options, option: value}), place.moment)
        said = f"{option}: {odd}: {found}"
        assert (found.fingerprint is None) == (found.problem is not None), said
        assert found.fingerprint is not None or WORD.fullmatch(found.problem or ""), said
        assert found.fingerprint is None or (place.probe, option, odd) in MEANT, said
        assert MARKER not in said + caplog.text


@pytest.mark.parametrize("name", built_in("probes"))
def test_it_never_says_what_stood_in_an_option_that_does_not_fit(name: str, capfd: Any, caplog: Any) -> None:
    taken = ("path", "url", "file", "store", "command", "base_url", "cookie_file", "query", "name", "env")
    found = registry.find("probes", name).measure(target(**{option: [MARKER] for option in taken}), MOMENT)
    assert (found.fingerprint, found.reachable) == (None, False)
    assert found.problem == "target_unfit"
    assert MARKER not in repr(found) + "".join(capfd.readouterr()) + caplog.text
