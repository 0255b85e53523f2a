"""The file destination and verifier in real folders and against a real HTTP store."""

import hashlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import chdir
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from branches.ports import (
    Answer,
    Arrival,
    Baseline,
    Check,
    DestinationQuery,
    ListsArrivals,
    OutcomeVerifier,
    Question,
    Target,
)
from debugger.adapters.destinations import files
from debugger.adapters.destinations.file import FileDestination, FileVerifier
from tests.adapters.places import KEY, MARKER, Web, target
from tests.adapters.talks import NAMED, OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.patience import ends

OTHER_NAMED = OTHER.replace(":", "-")
REPORT = json.dumps({"title": MARKER, "sum": 3}).encode()


class Folder:
    """A root with a file by operation below it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()

    def write(self, content: bytes = REPORT, name: str = NAMED) -> Path:
        path = self.root / "reports" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return path

    def target(self, **changes: Any) -> Target:
        options = {
            "root": str(self.root),
            "path": "reports/{operation_key}.json",
            "expected": {"report": {"content_type": "application/json", "min_bytes": 10}},
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "root")


def ask(place: Target, sent: str | None = None) -> Any:
    return FileDestination().ask(place, Question(OPERATION, "write_report", sent))


def check(place: Target, base: str | None, *keys: str, expected: str = "report") -> Any:
    return FileVerifier().check(place, expected, base, frozenset(keys))


def test_it_fulfils_its_ports() -> None:
    assert isinstance(FileDestination(), DestinationQuery)
    assert isinstance(FileDestination(), ListsArrivals)
    assert isinstance(FileVerifier(), OutcomeVerifier)
    assert FileDestination.limits.endswith(".")


def test_it_finds_the_file_of_an_operation(folder: Folder) -> None:
    assert ask(folder.target()).answer is Answer.ABSENT  # not even its folder is there
    folder.write(name=OTHER_NAMED)
    assert ask(folder.target()).answer is Answer.ABSENT
    folder.write()
    found = ask(folder.target())
    assert found.answer is Answer.PRESENT
    digest = hashlib.sha256(REPORT).hexdigest()
    assert found.fingerprint == KEY.digest("content", f"file\0{digest}")
    assert found.ref == KEY.digest("ref", f"reports/{NAMED}.json")
    assert nothing_of(found, MARKER, digest, "reports")


def test_its_fingerprint_is_that_of_the_content_alone(folder: Folder) -> None:
    path = folder.write()
    first = ask(folder.target()).fingerprint
    os.utime(path, (1, 1))
    assert ask(folder.target()).fingerprint == first
    folder.write(REPORT + b" ")
    assert ask(folder.target()).fingerprint != first


@pytest.mark.parametrize(
    ("names", "fields", "arguments"),
    [
        (["title", "sum"], {"title": "json.title", "sum": "json.sum"}, {"title": MARKER, "sum": 3}),
        (["content"], {"content": "text"}, {"content": REPORT.decode()}),
        (["sha256", "size"], {}, {"sha256": hashlib.sha256(REPORT).hexdigest(), "size": len(REPORT)}),
    ],
)
def test_it_rebuilds_the_payload(
    folder: Folder, names: list[str], fields: dict[str, str], arguments: dict[str, Any]
) -> None:
    folder.write()
    place = folder.target(payload=names, fields=fields)
    sent = payload(arguments, "write_report")
    assert (ask(place, sent).answer, ask(place, sent).fingerprint) == (Answer.PRESENT, sent)
    folder.write(REPORT.replace(b"3", b"4").replace(MARKER.encode(), b"other"))
    assert ask(place, sent).answer is Answer.CHANGED


def test_content_that_is_no_text_has_none(folder: Folder) -> None:
    folder.write(b"\xff\xfe")
    place = folder.target(payload=["content"], fields={"content": "text"})
    assert (ask(place).answer, ask(place).problem) == (Answer.UNKNOWN, "field_missing")


@pytest.mark.parametrize(
    "path",
    [
        "../{operation_key}.json",
        "reports/../../{operation_key}",
        "/etc/{operation_key}",
        "reports/\0{operation_key}",
        "reports/fixed.json",
        "{operation_key}/{operation_key}",
    ],
)
def test_it_says_unknown_of_a_path_that_leads_out_or_to_no_operation(folder: Folder, path: str) -> None:
    found = ask(folder.target(path=path))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "target_unfit")


def test_it_follows_no_link_out_of_the_root_nor_inside(folder: Folder, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_bytes(REPORT)
    path = folder.write()
    path.unlink()
    path.symlink_to(secret)
    assert (ask(folder.target()).answer, ask(folder.target()).problem) == (Answer.UNKNOWN, "not_a_file")
    path.unlink()
    path.parent.rmdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / path.name).write_bytes(REPORT)
    path.parent.symlink_to(tmp_path / "outside")
    assert (ask(folder.target()).answer, ask(folder.target()).problem) == (Answer.UNKNOWN, "not_a_folder")


def test_it_opens_nothing_that_is_no_plain_file(folder: Folder) -> None:
    path = folder.write()
    path.unlink()
    os.mkfifo(path)
    with ends():
        assert ask(folder.target()).problem == "not_a_file"
    path.unlink()
    path.mkdir()
    assert ask(folder.target()).problem == "not_a_file"
    path.rmdir()
    with socket.socket(socket.AF_UNIX) as listening:
        with chdir(path.parent):  # a socket's whole path may be too long
            listening.bind("s")
        (path.parent / "s").rename(path)
        with ends():
            assert ask(folder.target()).problem == "not_a_file"


def test_a_root_that_is_gone_or_not_the_right_one_is_no_absence(folder: Folder) -> None:
    assert ask(folder.target(root=f"{folder.root}x")).problem == "root_absent"
    assert ask(folder.target(root="relative")).problem == "target_unfit"
    watched = folder.target(witness=".mounted")
    assert (ask(watched).answer, ask(watched).problem) == (Answer.UNKNOWN, "root_absent")
    (folder.root / ".mounted").touch()
    assert ask(watched).answer is Answer.ABSENT


@pytest.mark.parametrize("where", ["within", "at the end"])
def test_a_file_that_is_written_meanwhile_is_no_answer(
    folder: Folder, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, read, written = folder.write(b"x" * 3_000_000), os.read, list[int]()

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        if bool(found) == (where == "within") and not written:
            with path.open("ab") as file:
                written.append(file.write(b"y"))
        return found

    monkeypatch.setattr(files.os, "read", meddle)
    found = ask(folder.target())
    monkeypatch.undo()
    assert written == [1]
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "being_written")
    assert ask(folder.target()).answer is Answer.PRESENT


def test_it_lists_every_file_of_the_form_since_a_moment(folder: Folder) -> None:
    before = datetime.now(UTC) - timedelta(seconds=5)
    folder.write()
    folder.write(name=MARKER)
    (folder.root / "reports" / "note.txt").touch()
    (folder.root / "reports" / "folder.json").mkdir()
    listed = FileDestination().arrivals(folder.target(), before)
    assert listed is not None
    assert sorted(str(each.operation_key) for each in listed) == ["None", OPERATION]
    assert all(each.at is not None and each.at >= before for each in listed)
    assert MARKER not in repr(listed)
    assert FileDestination().arrivals(folder.target(), datetime.now(UTC) + timedelta(hours=1)) == []
    assert FileDestination().arrivals(folder.target(root="/nowhere"), before) is None


def test_it_passes_only_a_newer_file_with_other_content(folder: Folder) -> None:
    place = folder.target(path="reports/latest.json")
    verifier = FileVerifier()
    assert verifier.baseline(place, "report") == Baseline(None, reachable=True)
    assert check(place, None).problem == "nothing_there"
    path = folder.write(name="latest")
    base = verifier.baseline(place, "report").version
    assert base is not None
    assert len(base) <= 32
    assert check(place, base).problem == "same_content"
    os.utime(path)
    assert check(place, base).problem == "same_content"
    time.sleep(0.02)
    folder.write(REPORT + b"\n", name="latest")
    passed = check(place, base)
    assert (passed.check, passed.fresh, passed.problem) == (Check.PASSED, True, None)
    assert check(place, None).fresh is True
    assert check(place, "no version").problem == "version_unordered"


def test_it_passes_only_the_file_of_this_run_where_its_name_holds_the_key(folder: Folder) -> None:
    place = folder.target()
    assert FileVerifier().baseline(place, "report") == Baseline(None, reachable=True)
    folder.write(name=OTHER_NAMED)
    base = FileVerifier().baseline(place, "report").version
    assert base is not None
    assert check(place, base, OPERATION).problem == "nothing_there"
    assert check(place, base, OTHER).problem == "none_newer"
    time.sleep(0.02)
    folder.write(name=MARKER)
    folder.write()
    assert check(place, base, OPERATION).fresh is True
    assert check(place, base).problem == "nothing_there"
    assert check(place, base, *(f"hmac-sha256:0badc0de:{n:064x}" for n in range(51))).problem == "too_many"


SCHEMA = {"type": "object", "required": ["title"], "properties": {"sum": {"maximum": 5}}}


@pytest.mark.parametrize(
    ("terms", "difference"),
    [
        ({"min_bytes": len(REPORT)}, ()),
        ({"min_bytes": len(REPORT) + 1}, ("min_bytes",)),
        ({"digest": "sha256:" + hashlib.sha256(REPORT).hexdigest()}, ()),
        ({"digest": "sha256:" + "0" * 64, "min_bytes": 10**9}, ("digest", "min_bytes")),
        ({"json_schema": SCHEMA}, ()),
        ({"json_schema": {**SCHEMA, "required": ["memo"]}}, ("json_schema",)),
        ({"json_schema": {"properties": {"sum": {"maximum": 2}}}}, ("json_schema",)),
        ({"content_type": "application/json"}, ()),
        ({"content_type": "application/pdf"}, ("content_type",)),
        ({"content_type": "text/plain"}, ("content_type",)),
    ],
)
def test_it_names_the_terms_that_were_not_met(
    folder: Folder, terms: dict[str, Any], difference: tuple[str, ...]
) -> None:
    folder.write()
    found = check(folder.target(expected={"report": terms}), None, OPERATION)
    assert (found.check, found.difference) == (Check.FAILED if difference else Check.PASSED, difference)
    assert nothing_of(found, MARKER)


@pytest.mark.parametrize(
    ("media_type", "suffix", "content", "fits"),
    [
        ("application/pdf", ".pdf", b"%PDF-1.7 x", True),
        ("application/pdf", ".pdf", b"<html>", False),
        ("application/pdf", ".txt", b"%PDF-1.7", False),
        ("image/png", ".png", b"\x89PNG\r\n\x1a\n...", True),
        ("text/html", ".html", b"\xef\xbb\xbf \n<!DOCTYPE html><p>", True),
        ("text/html", ".html", b"<!-- " * 10_000, False),
        ("text/markdown", ".md", "# Grüße".encode(), True),
        ("text/markdown", ".md", b"\xff\xfe", False),
        ("text/plain", ".txt", b"a\0b", False),
        ("application/json", ".json", b"{", False),
        ("application/zip", ".zip", b"PK\x03\x04", True),
    ],
)
def test_it_takes_a_type_by_suffix_and_beginning(
    folder: Folder, media_type: str, suffix: str, content: bytes, fits: bool
) -> None:
    (folder.root / f"a{suffix}").write_bytes(content)
    place = folder.target(path=f"a{suffix}", expected={"report": {"content_type": media_type}})
    assert check(place, None).check is (Check.PASSED if fits else Check.FAILED)


@pytest.mark.parametrize(
    "terms",
    [
        {},
        {"colour": "red"},
        {"min_bytes": "10"},
        {"min_bytes": True},
        {"digest": "md5:0"},
        {"content_type": "application/x-unknown"},
        {"json_schema": 3},
        {"json_schema": {"type": 3}},
        {"json_schema": {"$ref": "http://127.0.0.1:9/schema.json"}},
    ],
)
def test_it_passes_nothing_by_terms_it_does_not_know(folder: Folder, terms: dict[str, Any]) -> None:
    folder.write()
    found = check(folder.target(expected={"report": terms}), None, OPERATION)
    assert (found.check, found.problem) == (Check.UNREACHABLE, "target_unfit")


def test_no_json_and_too_much_of_it_are_no_pass(folder: Folder) -> None:
    place = folder.target(expected={"report": {"json_schema": SCHEMA}})
    folder.write(b"{")
    assert check(place, None, OPERATION).difference == ("json_schema",)
    folder.write(b'"' + b"x" * 70_000 + b'"')
    assert check(place, None, OPERATION).problem == "too_large"


class Store:
    """An HTTP store in the manner of S3: objects by key, with their type, time and tag."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, str, datetime]] = {}
        self.missing = 404
        self.now = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
        self.web = Web(self.answer)
        routes: Any = self.web.server.RequestHandlerClass
        routes.do_HEAD = routes.do_GET
        routes.date_time_string = lambda *_: format_datetime(self.now, usegmt=True)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.path not in self.objects:
            return self.missing, [], b""
        content, media_type, at = self.objects[request.path]
        headers = [
            ("Content-Type", media_type),
            ("Last-Modified", format_datetime(at, usegmt=True)),
            ("ETag", f'"{hashlib.md5(content).hexdigest()}"'),
            ("Content-Length", str(len(content))),
        ]
        return 200, headers, b"" if request.command == "HEAD" else content

    def put(self, content: bytes = REPORT, name: str = NAMED, seconds: int = 0) -> None:
        at = self.now + timedelta(seconds=seconds)
        self.objects[f"/bucket/{quote(name)}.json"] = (content, "application/json", at)

    def target(self, **changes: Any) -> Target:
        options = {
            "url": self.web.url + "/bucket/{operation_key}.json",
            "absent": [404],
            "allow": "loopback",
            "expected": {"report": {"content_type": "application/json", "min_bytes": 10}},
            **changes,
        }
        return target(**{name: value for name, value in options.items() if value is not None})


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.web.close()


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_it_finds_the_object_of_an_operation(store: Store, method: str) -> None:
    assert ask(store.target(method=method)).answer is Answer.ABSENT
    assert ask(store.target(method=method, absent=None)).problem == "status_undeclared"
    store.put()
    found = ask(store.target(method=method))
    assert (found.answer, found.version) == (Answer.PRESENT, str(int(store.now.timestamp())))
    first = found.fingerprint
    store.put(REPORT + b" ")
    assert ask(store.target(method=method)).fingerprint != first


def test_what_is_larger_than_what_is_read_is_asked_by_its_head(store: Store) -> None:
    store.put(b"x" * 70_000)
    assert ask(store.target()).problem == "too_large"
    assert ask(store.target(method="HEAD")).answer is Answer.PRESENT
    assert ask(store.target(method="PUT")).problem == "target_unfit"
    by_head = store.target(method="HEAD", expected={"report": {"min_bytes": 70_000}})
    assert check(by_head, None, OPERATION).check is Check.PASSED
    for terms in (
        {"digest": "sha256:" + "0" * 64},
        {"content_type": "application/json"},
        {"json_schema": {}},
    ):
        found = check(store.target(method="HEAD", expected={"report": terms}), None, OPERATION)
        assert found.check is Check.UNREACHABLE


@pytest.mark.parametrize("status", [403, 500, 503, 302, 429])
def test_a_store_that_does_not_say_is_unknown(store: Store, status: int) -> None:
    store.missing = status
    found = ask(store.target())
    assert found.answer is Answer.UNKNOWN
    assert found.problem in {"not_authorized", "server_error", "redirected", "status_undeclared"}


def test_it_passes_only_an_object_that_is_newer_by_the_store_s_own_clock(store: Store) -> None:
    place = store.target()
    store.put(name=OTHER_NAMED)
    base = FileVerifier().baseline(place, "report")
    assert base == Baseline(str(int(store.now.timestamp())), reachable=True)
    assert check(place, base.version, OTHER).problem == "none_newer"
    assert check(place, base.version, OPERATION).problem == "nothing_there"
    store.put(seconds=1)
    assert check(place, base.version, OPERATION, OTHER).fresh is True


def test_it_compares_one_object_with_what_it_was(store: Store) -> None:
    place = store.target(url=store.web.url + "/bucket/latest.json")
    store.put(name="latest")
    base = FileVerifier().baseline(place, "report").version
    assert check(place, base).problem == "same_content"
    store.put(REPORT + b" ", name="latest")
    assert check(place, base).fresh is True  # within the second, and another content
    store.put(REPORT + b"  ", name="latest", seconds=-5)
    assert check(place, base).problem == "none_newer"
    store.objects[f"/bucket/{'latest'}.json"] = (b"%PDF-1.7 long enough", "application/pdf", store.now)
    assert check(place, None).difference == ("content_type",)


def test_a_store_has_no_list_and_sends_its_secret_never_in_clear(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert FileDestination().arrivals(store.target(), store.now) is None
    assert not FileDestination().lists(store.target())
    monkeypatch.setenv("STORE_TOKEN", "s3cret")
    store.put()
    assert ask(store.target(auth_env="STORE_TOKEN")).answer is Answer.PRESENT
    assert store.web.seen[-1]["Authorization"] == "Bearer s3cret"
    assert ask(store.target(auth_env="STORE_TOKEN", allow=["127.0.0.0/8"])).problem == "secret_in_clear"
    assert ask(store.target(auth_env="NO_TOKEN")).problem == "secret_missing"
    assert ask(store.target(allow=None)).problem == "address_refused"
    store.web.close()
    assert ask(store.target()).problem == "no_connection"
    assert FileVerifier().baseline(store.target(), "report").reachable is False


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("talk", "problems"),
    [
        (says(b""), {"no_answer"}),
        (says(b"garbage"), {"no_answer"}),
        (says(OK + b"Content-Length: 100\r\n\r\nx"), {"no_answer", "cut_short"}),
        (says(OK + b"Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"), {"encoded"}),
        (stalls(OK + b"Content-Length: 100\r\n\r\nx"), {"timeout"}),
        (stalls(), {"timeout"}),
        (drips(OK + b"\r\n"), {"timeout"}),
    ],
)
def test_a_store_that_breaks_off_or_stalls_is_unknown(
    talk: Any, problems: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "timeout" in problems:
        hurry(monkeypatch)
    with server(talk) as port, ends():
        place = target(url=f"http://127.0.0.1:{port}/{{operation_key}}", absent=[404], allow="loopback")
        found = ask(place)
    assert (found.answer, found.problem in problems) == (Answer.UNKNOWN, True)


def test_an_arrival_is_named_by_a_digest_alone(folder: Folder) -> None:
    folder.write()
    listed = FileDestination().arrivals(folder.target(), datetime(2000, 1, 1, tzinfo=UTC))
    assert listed is not None
    assert listed[0] == Arrival(KEY.digest("ref", f"reports/{NAMED}.json"), OPERATION, listed[0].at)
