"""The HTTP resource probe against a real server: what is a state, what proves nothing, and how it ends."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from branches.evidence.keys import is_hmac
from branches.ports import StateMeasurement, StateProbe, Unsupported
from debugger.adapters.outbound import MOST_BYTES
from debugger.adapters.probes import http_answer
from debugger.adapters.probes.http_resource import HttpResourceProbe
from tests.adapters.places import KEY, MARKER, MOMENT, Web, target
from tests.adapters.wire import leaves_nothing_open, wire
from tests.patience import ends


class Resource:
    """What the server answers; each test sets it."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: list[tuple[str, str]] = [("Content-Type", "text/plain")]
        self.body = MARKER.encode()
        self.web = Web(lambda _: (self.status, self.headers, self.body))

    def measure(self, **options: Any) -> StateMeasurement:
        given = {"url": f"{self.web.url}/{MARKER}", "allow": "loopback"} | options
        return HttpResourceProbe().measure(target(**given), MOMENT)

    def problem(self, **options: Any) -> str | None:
        found = self.measure(**options)
        assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
        return found.problem


@pytest.fixture
def resource() -> Iterator[Resource]:
    made = Resource()
    yield made
    made.web.close()


def test_it_fulfils_its_port_and_has_no_past() -> None:
    probe = HttpResourceProbe()
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260
    with pytest.raises(Unsupported):
        probe.capture(target(), MOMENT)
    assert probe.measure(target(), MOMENT).problem == "target_unfit"


def test_it_measures_status_and_body_and_nothing_that_comes_and_goes(resource: Resource, caplog: Any) -> None:
    caplog.set_level("DEBUG")
    first = resource.measure()
    assert is_hmac(first.fingerprint or "")
    assert first.facts == {"status": 200, "compared_by": "body"}
    for number in range(2):
        resource.headers = [
            ("ETag", f'W/"{number}"' if number else '"strong"'),
            ("Last-Modified", f"Mon, 0{number + 1} Nov 2026 00:00:00 GMT"),
            ("Set-Cookie", f"a={number}"),
            ("X-Request-Id", str(number)),
        ]
        assert resource.measure() == first
    resource.body = MARKER[::-1].encode()
    changed = resource.measure()
    assert changed.fingerprint not in (None, first.fingerprint)
    drifted = {part for part in first.parts if first.parts[part] != changed.parts[part]}
    assert drifted == {KEY.digest("part", "body")}
    assert MARKER not in repr((first, changed)) + caplog.text


def test_it_compares_the_headers_that_are_declared(resource: Resource) -> None:
    seen = []
    for headers in ([], [("X-Version", "")], [("X-Version", "1")], [("X-Version", "1"), ("X-Version", "2")]):
        resource.headers = headers
        seen.append(resource.measure(headers=["x-version", "X-Version"]).fingerprint)
        assert resource.measure(headers=["X-Version"]).fingerprint == seen[-1]
    assert len(set(seen)) == len(seen)
    assert None not in seen


def test_it_takes_a_missing_resource_for_a_state_whatever_the_error_page_says(resource: Resource) -> None:
    there, resource.status = resource.measure(), 404
    gone = resource.measure()
    assert gone.facts == {"status": 404, "compared_by": "status"}
    resource.body = b"another page, made at another time"
    assert resource.measure() == gone
    resource.status = 410
    assert len({there.fingerprint, gone.fingerprint, resource.measure().fingerprint}) == 3


def test_it_follows_nothing_and_says_where_it_would_lead_only_as_a_digest(resource: Resource) -> None:
    resource.status, resource.headers = 302, [("Location", f"{resource.web.url}/{MARKER}/else")]
    first = resource.measure()
    assert first.facts == {"status": 302, "compared_by": "location"}
    assert resource.web.paths == [f"/{MARKER}"]
    resource.body = b"<a>here</a>"
    assert resource.measure() == first
    resource.headers = [("Location", "http://10.0.0.1/")]
    other = resource.measure()
    resource.status = 301
    assert len({first.fingerprint, other.fingerprint, resource.measure().fingerprint}) == 3
    assert MARKER not in repr(first)
    resource.headers = []
    assert resource.problem() == "status_undeclared"


@pytest.mark.parametrize(
    ("status", "word"),
    [
        *(
            (500, "server_error"),
            (502, "server_error"),
            (503, "server_error"),
            (429, "busy"),
            (400, "status_undeclared"),
        ),
        *(
            (401, "not_authorized"),
            (403, "not_authorized"),
            (206, "status_undeclared"),
            (304, "status_undeclared"),
        ),
        *((408, "status_undeclared"), (418, "status_undeclared")),
    ],
)
def test_it_learns_nothing_of_the_resource_from(resource: Resource, status: int, word: str) -> None:
    resource.status = status
    if status == 304:
        resource.body = b""
    assert resource.problem() == word


@pytest.mark.parametrize("length", [True, False])
def test_it_compares_a_large_body_only_by_a_strong_etag(resource: Resource, length: bool) -> None:
    resource.body = b"x" * MOST_BYTES
    whole = resource.measure()
    assert whole.facts["compared_by"] == "body"
    resource.body += b"x"
    for weak in ([], [("ETag", 'W/"1"')], [("ETag", "1")], [("ETag", '""')], [("Last-Modified", "today")]):
        resource.headers = weak
        assert resource.problem() == "too_large"
    resource.headers = [("ETag", '"1"')]
    first = resource.measure()
    assert first.facts == {"status": 200, "compared_by": "etag"}
    resource.body += b"y" * (length * 10)
    assert resource.measure() == first
    resource.headers = [("ETag", '"2"')]
    assert len({whole.fingerprint, first.fingerprint, resource.measure().fingerprint}) == 3


def test_it_believes_no_answer_of_which_the_end_may_be_missing(resource: Resource) -> None:
    resource.headers = [("Content-Length", "1000")]
    assert resource.problem() in {"no_answer", "cut_short"}
    resource.headers = [("Content-Encoding", "gzip")]
    assert resource.problem() == "encoded"
    resource.headers = [("Content-Length", "")]
    assert resource.problem() in {"length_missing", "no_answer"}


def test_it_reads_a_body_in_pieces_and_believes_no_last_one_that_is_missing(resource: Resource) -> None:
    whole = resource.measure()
    resource.headers = [("Transfer-Encoding", "chunked"), ("Content-Length", "0")]
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(MARKER), MARKER.encode())
    resource.body = sent
    assert resource.measure().fingerprint == whole.fingerprint
    resource.body = sent[:-5]
    assert resource.problem() == "no_answer"


@pytest.mark.parametrize("status", [200, 404, 302])
@pytest.mark.parametrize("most", [0, 10, 60, 150])
@pytest.mark.parametrize(
    ("then", "words"),
    [("stall", {"timeout"}), ("cut", {"no_answer", "cut_short"}), ("drip", {"timeout"})],
)
def test_it_ends_where_the_server_falls_silent_slows_down_or_is_cut(
    resource: Resource, then: str, words: set[str], most: int, status: int, monkeypatch: Any
) -> None:
    """Also where the half that came has a status that would be a state, or half an address to go to."""
    if words == {"timeout"}:
        monkeypatch.setattr(http_answer, "READ_S", 0.5)
    resource.status, resource.body = status, b"x" * 2000 if status == 200 else b""
    resource.headers = [
        ("Content-Length", str(len(resource.body))),
        ("Location", "http://a.example/" + "x" * 300),
    ]
    place = urlsplit(resource.web.url)
    server = (str(place.hostname), int(place.port or 0))
    with leaves_nothing_open(), ends(), wire(server, then=then, most=most) as between:
        assert resource.problem(url=f"http://127.0.0.1:{between.port}/") in words


def test_it_takes_no_server_for_no_absent_resource(resource: Resource) -> None:
    resource.web.close()
    assert resource.problem() == "no_connection"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"allow": None}, "address_refused"),
        ({"allow": "everything"}, "target_unfit"),
        ({"url": "file:///etc/hostname"}, "url_form"),
        ({"url": "http://user:pw@127.0.0.1/"}, "url_form"),
        ({"headers": "x"}, "target_unfit"),
        ({"headers": ["a b"]}, "target_unfit"),
        ({"headers": ["Date"]}, "target_unfit"),
        ({"headers": ["ETag"]}, "target_unfit"),
        ({"headers": ["Last-Modified"]}, "target_unfit"),
        ({"auth_env": 7}, "target_unfit"),
        ({"auth_env": "BRANCHGATE_NO_SUCH"}, "secret_missing"),
        ({"auth_env": "BRANCHGATE_TEST_SECRET", "url": "http://8.8.8.8/"}, "secret_in_clear"),
    ],
)
def test_it_asks_only_as_the_target_says(
    resource: Resource, options: dict[str, Any], word: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", MARKER)
    assert resource.problem(**options) == word
    assert resource.web.paths == []


def test_it_sends_the_secret_that_is_referred_to_and_shows_it_nowhere(
    resource: Resource, monkeypatch: Any, caplog: Any
) -> None:
    caplog.set_level("DEBUG")
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", f"s3cret-{MARKER}")
    found = resource.measure(auth_env="BRANCHGATE_TEST_SECRET")
    assert resource.web.seen[0]["Authorization"] == f"Bearer s3cret-{MARKER}"
    assert not re.search(MARKER, repr(found) + caplog.text)
    monkeypatch.setenv("BRANCHGATE_TEST_SECRET", "a\r\nX-Other: 1")
    assert resource.problem(auth_env="BRANCHGATE_TEST_SECRET") == "secret_missing"
