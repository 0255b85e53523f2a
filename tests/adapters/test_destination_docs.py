"""The examples of the destinations' pages, run as they are written: only the place is another."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from branches.ports import Answer, Check, Question, Target
from debugger.adapters.destinations.deployment import DeploymentDestination, DeploymentVerifier
from debugger.adapters.destinations.document import DocumentVerifier
from debugger.adapters.destinations.file import FileDestination, FileVerifier
from debugger.adapters.destinations.git_ref import GitRefDestination, GitRefVerifier
from debugger.adapters.destinations.http_json import HttpJsonDestination, HttpJsonVerifier
from debugger.adapters.destinations.http_state import HttpStateVerifier
from debugger.adapters.destinations.imap import ImapDestination, ImapVerifier
from debugger.adapters.destinations.sql_row import SqlRowDestination, SqlRowVerifier
from tests.adapters.mail_server import PASSWORD, USER, MailServer
from tests.adapters.places import KEY, NOW, Web
from tests.adapters.talks import NAMED, OPERATION
from tests.adapters.test_git_ref import Forge
from tests.adapters.test_http_json import payload

DOCS = Path(__file__).resolve().parents[2] / "docs" / "destinations"
QUESTION = Question(OPERATION, "write", None)
OURS = frozenset({OPERATION})
MOST_LINES = 60


def examples(page: str, here: dict[str, str], **more: Any) -> dict[str, Target]:
    """Every target of a page, with its place replaced by one of here."""
    found: dict[str, Target] = {}
    content = (DOCS / f"{page}.md").read_text()
    for there, own in here.items():
        content = content.replace(there, own)
    for block in re.findall(r"```json\n(.*?)```", content, re.DOTALL):
        for name, options in json.loads(block).items():
            found[name] = Target(name, {**options, **more}, KEY)
    return found


def asked(sent: dict[str, Any]) -> Question:
    return Question(OPERATION, "write", payload(sent, "write"))


class Pages:
    """A site whose answers stand under their paths; a path that is not there is 404."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.web = Web(self.answer)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        path = unquote(request.path.partition("?")[0])
        if path not in self.kept or "page=2" in request.path:
            return (200, [], b'{"items": []}') if "page=" in request.path else (404, [], b"")
        return 200, [("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")], json.dumps(self.kept[path]).encode()


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    yield made
    made.web.close()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_is_short_and_says_what_is_proven_and_what_is_not(page: Path) -> None:
    content = page.read_text()
    assert content.count("\n") <= MOST_LINES
    assert "| proves |" in content
    assert "| cannot |" in content


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not on this machine")
def test_git_ref(tmp_path: Path) -> None:
    forge = Forge(tmp_path)
    found = examples("git_ref", {"/srv/git/reports.git": str(forge.bare)})
    base = GitRefVerifier().baseline(found["repo-main"], "report-published").version
    commit = forge.commit("second", f"Operation-Key: {OPERATION}")
    assert GitRefDestination().ask(found["repo"], QUESTION).answer is Answer.ABSENT
    forge.push(f"agent/{NAMED}")
    forge.push("main")
    assert GitRefDestination().ask(found["repo"], asked({"commit": commit})).answer is Answer.PRESENT
    assert GitRefDestination().ask(found["repo-trailers"], QUESTION).version == commit[:32]
    assert GitRefVerifier().check(found["repo-main"], "report-published", base, OURS).fresh is True


@pytest.mark.skipif(shutil.which("dovecot") is None, reason="dovecot is not on this machine")
def test_imap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SENT_MAIL_USER", USER)
    monkeypatch.setenv("SENT_MAIL_PASSWORD", PASSWORD)
    mail = MailServer()
    try:
        found = examples(
            "imap",
            {"mail.example.org": "127.0.0.1"},
            port=mail.tls,
            ca_file=str(mail.ca_file),
            allow="loopback",
        )
        base = ImapVerifier().baseline(found["editors-mail"], "report-mailed").version
        assert ImapDestination().ask(found["sent-mail"], QUESTION).answer is Answer.ABSENT
        head = f"Message-ID: <{NAMED}@agents.example.org>\r\nTo: ada@example.org\r\nSubject: Report\r\n\r\n."
        mail.put(head.encode())
        sent = asked({"subject": "Report", "to": "ada@example.org"})
        assert ImapDestination().ask(found["sent-mail"], sent).answer is Answer.PRESENT
        assert ImapVerifier().check(found["editors-mail"], "report-mailed", base, OURS).fresh is True
    finally:
        mail.close()


def test_sql_row(tmp_path: Path) -> None:
    url = "postgresql://auditor@db.example.org:5432/shop?sslmode=verify-full"
    found = examples("sql_row", {url: f"sqlite://{tmp_path}/shop.sqlite"})
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as connection, connection:
        connection.execute(
            "CREATE TABLE orders"
            " (id INTEGER, operation_key TEXT, sku TEXT, quantity INTEGER, version INTEGER, created_at TEXT)"
        )
        assert SqlRowDestination().ask(found["orders"], QUESTION).answer is Answer.ABSENT
        row = (7, OPERATION, "A-7", 2, 3, NOW.isoformat())
        connection.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?)", row)
    assert (
        SqlRowDestination().ask(found["orders"], asked({"sku": "A-7", "quantity": 2})).answer
        is Answer.PRESENT
    )
    listed = SqlRowDestination().arrivals(found["orders"], NOW)
    assert listed is not None
    assert listed[0].operation_key == OPERATION
    assert SqlRowVerifier().check(found["orders-newest"], "order-placed", "2", OURS).fresh is True


def test_file(tmp_path: Path, pages: Pages) -> None:
    here = {"/srv/reports": str(tmp_path), "https://bucket.example.org": pages.web.url}
    found = examples("file", here, allow="loopback")
    assert FileDestination().ask(found["reports"], QUESTION).answer is Answer.ABSENT
    assert FileDestination().ask(found["bucket"], QUESTION).answer is Answer.ABSENT
    (tmp_path / NAMED).mkdir()
    for path in (tmp_path / NAMED / "report.json", tmp_path / "latest.json"):
        path.write_text('{"title": "Prices"}')
    pages.kept[f"/reports/{NAMED}.json"] = {}
    assert FileDestination().ask(found["reports"], asked({"title": "Prices"})).answer is Answer.PRESENT
    assert FileDestination().ask(found["bucket"], QUESTION).answer is Answer.PRESENT
    assert FileVerifier().check(found["report"], "report-published", None).check is Check.PASSED


def test_deployment(pages: Pages) -> None:
    found = examples("deployment", {"https://www.example.org": pages.web.url}, allow="loopback")
    version = {"version": "1.10.0", "deployed_by": OPERATION, "environment": "production"}
    pages.kept = {"/version": version, "/state": version, "/health": {"ok": True}}
    assert DeploymentDestination().ask(found["site"], QUESTION).answer is Answer.PRESENT
    assert DeploymentVerifier().check(found["site-live"], "deployed", "1.9.0", OURS).fresh is True
    pages.kept["/health"] = {"ok": False}
    assert DeploymentVerifier().check(found["site-live"], "deployed", "1.9.0", OURS).difference == ("health",)


def test_document(tmp_path: Path) -> None:
    found = examples("document", {"/srv/reports": str(tmp_path)})["market-report"]
    (tmp_path / f"{NAMED}.md").write_text(
        "---\ntitle: Prices\nversion: 1\n---\n"
        "# Summary\nUp [SRC-1].\n# Method\nSums.\n# Sources\nSRC-1, SRC-2\n"
    )
    assert DocumentVerifier().check(found, "report-written", None, OURS).check is Check.PASSED


def test_http(pages: Pages) -> None:
    found = examples("http", {"https://shop.example.org": pages.web.url}, allow="loopback")["order-7"]
    pages.kept["/orders/7"] = {"state": "open"}
    base = HttpStateVerifier().baseline(found, "order-paid").version
    pages.kept["/orders/7"] = {"state": "paid", "payment": {"currency": "EUR"}}
    assert HttpStateVerifier().check(found, "order-paid", base).fresh is True
    pages.kept.clear()
    assert HttpStateVerifier().check(found, "order-gone", base).fresh is True


def test_http_json(pages: Pages) -> None:
    found = examples("http_json", {"https://desk.example.org": pages.web.url}, allow="loopback")
    assert HttpJsonDestination().ask(found["tickets"], QUESTION).answer is Answer.ABSENT
    pages.kept[f"/tickets/by-key/{OPERATION}"] = {"subject": "Prices", "version": 3, "id": 7}
    pages.kept["/tickets"] = {"items": [{"key": OPERATION, "created_at": NOW.isoformat(), "id": 7}]}
    pages.kept["/reports"] = {"items": [{"version": 5, "key": OPERATION, "kind": "report"}]}
    assert HttpJsonDestination().ask(found["tickets"], asked({"subject": "Prices"})).answer is Answer.PRESENT
    listed = HttpJsonDestination().arrivals(found["tickets"], NOW)
    assert listed is not None
    assert [each.operation_key for each in listed] == [OPERATION]
    assert HttpJsonVerifier().check(found["reports"], "report-published", "4", OURS).fresh is True


def test_the_ready_made_targets_are_written_as_the_page_says() -> None:
    page = (DOCS / "http_json.md").read_text()
    printed = StringIO()
    with redirect_stdout(printed):
        exec(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0], {})
    written = json.loads(printed.getvalue())
    assert set(written) == {"issues", "newest-issue"}
    assert written["issues"]["url"].startswith("https://api.github.com/repos/example/reports/issues?")
    assert written["newest-issue"]["expected"] == {"issue-filed": {"state": "open"}}
