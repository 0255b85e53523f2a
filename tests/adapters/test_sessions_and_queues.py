"""The browser session's probe and the approval queue's, in what only they know."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from branches.evidence.domains import PART
from branches.ports import Moment, StateMeasurement
from debugger.adapters.probes import approval_journal
from debugger.adapters.probes.approval_journal import ApprovalJournalProbe
from debugger.adapters.probes.http_session import HttpSessionProbe
from tests.adapters.places import KEY, MARKER, MOMENT, NOW, Site, target
from tests.adapters.places_journals import Queue, SqliteQueue


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def session(site: Site) -> object:
    found = HttpSessionProbe().measure(site.target(), MOMENT)
    return found.facts.get("session", found.problem)


def test_it_names_the_class_of_a_session(site: Site) -> None:
    assert session(site) == "signed_in"
    site.live.clear()
    assert session(site) == "expired"
    site.cookie_file.unlink()
    assert session(site) == "anonymous"


def test_it_takes_a_way_to_the_sign_in_page_and_a_taken_cookie_for_expired(site: Site) -> None:
    site.status, site.headers = 302, [("Location", f"{site.web.url}/sign-in")]
    assert session(site) == "expired"
    assert site.web.paths == [f"/{MARKER}"]  # followed nowhere
    site.status, site.headers = 200, [("Set-Cookie", "session=; Max-Age=0")]
    assert session(site) == "expired"


@pytest.mark.parametrize(("status", "problem"), [(500, "server_error"), (404, "status_undeclared")])
def test_it_says_nothing_of_a_session_where_the_site_says_nothing(
    site: Site, status: int, problem: str
) -> None:
    site.status = status
    assert session(site) == problem


def test_it_names_the_part_that_drifted(site: Site) -> None:
    before = HttpSessionProbe().measure(site.target(), MOMENT)
    site.live.clear()
    after = HttpSessionProbe().measure(site.target(), MOMENT)
    assert drifted(before, after, HttpSessionProbe.part_names) == {"session"}


def drifted(before: StateMeasurement, after: StateMeasurement, names: tuple[str, ...]) -> set[str]:
    known = {KEY.digest(PART, name): name for name in names}
    assert set(before.parts) == set(after.parts) == set(known)
    return {known[part] for part in known if before.parts[part] != after.parts[part]}


@pytest.mark.parametrize("path", [".evil.example/", "@evil.example/", ":9/", "\\evil.example/"])
def test_it_takes_no_path_that_would_change_the_host(site: Site, path: str) -> None:
    options = {**site.target().options, "path": path}
    found = HttpSessionProbe().measure(target(**options), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "target_unfit")
    assert site.web.paths == []


def test_it_sends_no_cookie_that_would_be_two_headers(site: Site) -> None:
    site.cookie_file.write_text("session=abc\r\nX-Other: 1")
    assert session(site) == "target_unfit"
    assert site.web.paths == []


@pytest.fixture(params=[Queue, SqliteQueue])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Queue:
    return request.param(tmp_path)


def at(minutes: int) -> Moment:
    return Moment(None, None, NOW + timedelta(minutes=minutes))


def test_it_replays_the_queue_as_it_was(queue: Queue) -> None:
    probe, place = ApprovalJournalProbe(), queue.target()
    then = probe.measure(place, MOMENT)
    assert probe.capture(place, at(0)) == then
    queue.add(5, f"ask-{MARKER}-1", "approved")
    queue.add(6, "ask-3", "requested")
    assert probe.capture(place, at(0)) == then
    now = probe.measure(place, MOMENT)
    assert now.fingerprint != then.fingerprint
    assert now.facts["pending"] == 1
    assert drifted(then, now, ApprovalJournalProbe.part_names) == {"pending", "resolved"}
    assert probe.capture(place, at(-60)).facts == {"pending": 0, "resolved": 0}


def test_it_tells_another_pending_request_and_another_word_apart(queue: Queue) -> None:
    probe, place = ApprovalJournalProbe(), queue.target()
    queue.add(1, f"ask-{MARKER}-1", "approved")
    approved = probe.measure(place, MOMENT)
    queue.add(2, "ask-9", "requested")
    queue.add(3, "ask-9", "rejected")
    queue.add(4, "ask-8", "requested")
    other = probe.measure(place, MOMENT)
    assert other.fingerprint != approved.fingerprint


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "journal_unreadable"),
        ('{"at": "2026-11-30T12:00:00", "request": "a", "event": "requested"}', "journal_form"),
        ('{"at": "2026-11-30T12:00:00Z", "request": "a", "event": "pondered"}', "journal_form"),
        ('{"at": "2026-11-30T12:00:00Z", "request": "a"}', "journal_form"),
        ('{"at": "2026-11-30T12:00:00Z", "request": "a", "event": "approved"}', "journal_inconsistent"),
        ("[]", "journal_form"),
    ],
)
def test_it_guesses_nothing_from_a_journal_it_cannot_read(tmp_path: Path, line: str, problem: str) -> None:
    queue = Queue(tmp_path)
    queue.path.write_text(line + "\n")
    found = ApprovalJournalProbe().measure(queue.target(), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, problem)


def test_it_leaves_out_a_line_that_is_still_being_written(tmp_path: Path) -> None:
    queue = Queue(tmp_path)
    before = ApprovalJournalProbe().measure(queue.target(), MOMENT)
    with queue.path.open("a") as file:
        file.write('{"at": "2026-11-30T12:')
    assert ApprovalJournalProbe().measure(queue.target(), MOMENT) == before


def test_it_reads_no_more_of_a_journal_than_it_may(queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    queue.add(1, "ask-3", "requested")
    assert ApprovalJournalProbe().measure(queue.target(), MOMENT).problem is None
    monkeypatch.setattr(approval_journal, "MOST_ENTRIES", 1)
    assert ApprovalJournalProbe().measure(queue.target(), MOMENT).problem == "too_many_entries"


def test_it_takes_no_journal_that_is_too_long_for_one_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = Queue(tmp_path)
    size = queue.path.stat().st_size
    monkeypatch.setattr(approval_journal, "MOST_BYTES", size)
    assert ApprovalJournalProbe().measure(queue.target(), MOMENT).problem is None
    monkeypatch.setattr(approval_journal, "MOST_BYTES", size - 1)
    assert ApprovalJournalProbe().measure(queue.target(), MOMENT).problem == "too_large"
