"""The desk over HTTP: it keeps once, publishes late, and only where there is a section."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import httpx
import pytest

from debugger.demo.desk import COOKIE, Desk
from debugger.demo.desk_client import DeskClient, DeskRefused
from debugger.demo.desk_store import DeskStore
from tests.patience import comes

MARKER = "CONTENT-MARKER-7f3a"
TICKET = {"subject": "check", "body": MARKER}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(0, tmp_path / "desk.sqlite", 3.0)
    Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def web(desk: Desk) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=desk.url, trust_env=False) as client:
        yield client


def post(web: httpx.Client, path: str, key: str, content: dict[str, str]) -> httpx.Response:
    return web.post(path, json=content, headers={"Idempotency-Key": key})


def draft(web: httpx.Client, key: str, section: str) -> None:
    assert post(web, "/drafts", key, {"title": "t", "section": section, "body": MARKER}).status_code == 201


def test_it_keeps_the_same_key_once(web: httpx.Client) -> None:
    first = post(web, "/tickets", "hmac-sha256:0badc0de:1", TICKET)
    again = post(web, "/tickets", "hmac-sha256:0badc0de:1", TICKET)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == web.get("/tickets/by-key/hmac-sha256%3A0badc0de%3A1").json()
    other = post(web, "/tickets", "hmac-sha256:0badc0de:1", {**TICKET, "body": "other"})
    assert other.status_code == 409


@pytest.mark.parametrize(
    "path", ["/tickets/by-key/x", "/mail/by-id/x", "/drafts/by-key/x", "/reports/latest"]
)
def test_it_says_what_it_does_not_have(web: httpx.Client, path: str) -> None:
    assert web.get(path).status_code == 404


def test_it_publishes_a_while_after_it_was_asked(desk: Desk, web: httpx.Client) -> None:
    draft(web, "d-1", "reports")
    asked = post(web, "/drafts/d-1/publish", "p-1", {})
    assert asked.status_code == 202
    assert web.get("/reports/latest").status_code == 404
    assert comes(lambda: web.get("/reports/latest").status_code == 200)
    report = web.get("/reports/latest").json()
    assert (report["version"], report["kind"], report["draft"]) == (1, "report", "d-1")
    assert post(web, "/drafts/d-1/publish", "p-1", {}).status_code == 200
    post(web, "/drafts/d-1/publish", "p-2", {})
    assert desk.store.publish_due(0) == 0
    assert web.get("/reports/latest").json()["version"] == 1  # a draft is published once
    assert web.get("/drafts/by-key/p-1").json()["draft"] == "d-1"


def test_it_refuses_a_section_that_it_does_not_have_and_keeps_nothing_of_it(web: httpx.Client) -> None:
    draft(web, "d-1", "front-page")
    assert post(web, "/drafts/d-1/publish", "p-1", {}).status_code == 422
    assert web.get("/drafts/by-key/p-1").status_code == 404
    assert post(web, "/drafts/none/publish", "p-2", {}).status_code == 404


def test_it_publishes_after_a_restart_what_it_was_asked_before(tmp_path: Path) -> None:
    store = DeskStore(tmp_path / "desk.sqlite")
    store.add_report({"title": "old"}, at=datetime.now(UTC) - timedelta(days=7))
    store.keep("draft", "d-1", {"title": "t", "section": "reports", "body": "b"})
    store.ask_to_publish("d-1", "p-1")
    store.close()
    again = DeskStore(tmp_path / "desk.sqlite")
    assert again.publish_due(60) == 0
    assert again.publish_due(0) == 1
    assert again.publish_due(0) == 0
    assert again.latest_report()["version"] == 2
    again.close()


def test_it_tells_sessions_apart(desk: Desk, web: httpx.Client) -> None:
    desk.store.set_session("abc", is_live=True)
    assert web.get("/site").status_code == 200
    signed_in = {"Cookie": f"{COOKIE}=abc"}
    assert web.get("/site", headers=signed_in).status_code == 200
    assert web.post("/site/sessions/abc/expired").status_code == 200
    assert web.get("/site", headers=signed_in).status_code == 401
    assert web.get("/site", headers={"Cookie": f"{COOKIE}=other"}).status_code == 401


@pytest.mark.parametrize(
    ("path", "key", "content", "status"),
    [
        ("/tickets", "", TICKET, 400),
        ("/tickets", "k", {"subject": "only"}, 400),
        ("/tickets", "k", {"subject": 1, "body": 2}, 400),
        ("/nowhere", "k", TICKET, 404),
    ],
)
def test_it_refuses_what_it_cannot_keep(
    web: httpx.Client, path: str, key: str, content: dict[str, str], status: int
) -> None:
    assert post(web, path, key, content).status_code == status


def test_its_client_tells_a_no_from_a_fault(desk: Desk) -> None:
    client = DeskClient(desk.url)
    client.write("/drafts", "d-1", {"title": "t", "section": "front-page", "body": "b"})
    with pytest.raises(DeskRefused):
        client.ask_to_publish("d-1", "p-1")
    with pytest.raises(httpx.HTTPStatusError):
        client.write("/drafts", "d-1", {"title": "other", "section": "front-page", "body": "b"})
    client.close()


def test_it_lists_keys_and_times_without_what_was_said(tmp_path: Path) -> None:
    store = DeskStore(tmp_path / "desk.sqlite")
    store.keep("ticket", "k1", {"subject": "CONTENT-MARKER-7f3a", "body": "b"})
    store.keep("draft", "k2", {"title": "t", "section": "reports", "body": "b"})
    listed = store.listed("ticket", "publication")
    assert [(each["key"], each["number"]) for each in listed] == [("k1", 1)]
    assert set(listed[0]) == {"key", "number", "at"}
    store.close()
