"""A token that replaces another: the home goes on as the same recorder; whoever lacks its key does not."""

import base64
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from branches.commands.admit import end_token, issue_token
from branches.evidence import ids
from branches.evidence.boxes import BoxError, BoxKey
from branches.models import ApiToken, Receipt, Recorder, RecorderToken, Run, WorkspaceReceipt
from branches.queries import clock
from branches.queries.lookups import recorder_of
from debugger.recorder import GateRefused, pairing
from debugger.recorder import Recorder as Opened
from debugger.recorder.client import Client
from tests.builders import make_world
from tests.recorder.site import ALL, Site, served
from tests.recorder.test_recoveries import DECLARED, graph

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def site(db: None, tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as site:
        site.publish(DECLARED)
        yield site


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(tmp_path / "store.sqlite", check_same_thread=False)) as connection:
        yield SqliteSaver(connection)


@pytest.fixture
def refuser() -> Iterator[tuple[str, list[str]]]:
    """Give a server that says of everything that nobody paired, and what it was asked."""
    asked: list[str] = []

    def application(environ: dict[str, Any], start_response: Any) -> list[bytes]:
        query = environ.get("QUERY_STRING")
        asked.append(environ["PATH_INFO"] + (f"?{query}" if query else ""))
        start_response("409 Conflict", [("Content-Type", "application/json")])
        return [b'{"error": {"field": null, "rule": "not_paired"}}']

    server = make_server("127.0.0.1", 0, application)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


def renewed(
    site: Site, scopes: tuple[str, ...] = ALL, workspace: Any = None, name: str = "recorder"
) -> tuple[ApiToken, str]:
    with site.guard:
        return issue_token(workspace=workspace or site.world.workspace, name=name, scopes=scopes)


def opened_with(site: Site, token: str) -> Opened:
    named = {"workflow": DECLARED["workflow"], "version": DECLARED["version"]}
    found = Opened.open(site.folder / "home", server=site.url, token=token, **named)
    site.opened.append(found)
    return found


def test_what_was_not_delivered_is_when_the_home_is_opened_with_a_new_token(
    site: Site, store: SqliteSaver
) -> None:
    before = site.recorder(Opened.open, DECLARED)
    run = before.start_run(graph(store), thread_id="t-1")
    assert before.flush(60)
    with site.guard:
        row = Run.objects.get(uid=run.run).recorder
        assert row is not None
        end_token(token=row.token)
    run.operation("invoice").delegate("writer", by="planner")
    assert not before.flush(0.5)
    site.close(before)
    token, secret = renewed(site)
    after = opened_with(site, secret)
    assert after.flush(60)
    assert after.identity.recorder == before.identity.recorder == row.uid
    assert [each.writer for each in site.handoffs(run.run)] == [row.uid]
    with site.guard:
        assert Recorder.objects.filter(box_key=row.box_key).count() == 1
        assert RecorderToken.objects.get().token == token
        last = WorkspaceReceipt.objects.filter(kind="recorder_continued").get()
        assert json.loads(last.body)["body"] == {"recorder": row.uid, "token": token.uid}
        assert recorder_of(token) == row


def test_pairing_anew_on_an_old_home_is_the_same_recorder(site: Site) -> None:
    before = site.recorder(Opened.open, DECLARED)
    site.close(before)
    _, secret = renewed(site)
    client = Client(site.url, secret)
    found = pairing.pair(site.folder / "home", client, name="again", runtime={"name": "x", "version": "1"})
    client.close()
    assert found.recorder == before.identity.recorder
    with site.guard:
        assert Recorder.objects.filter(uid=found.recorder).count() == 1
        assert not Recorder.objects.filter(name="again").exists()


def test_whoever_lacks_the_key_goes_on_as_nobody(site: Site) -> None:
    recorder = site.recorder(Opened.open, DECLARED).identity.recorder
    token, secret = renewed(site)
    client = Client(site.url, secret)
    sealed = base64.b64decode(client.challenge(recorder))
    with pytest.raises(BoxError):
        BoxKey.generate().open(sealed)
    for proof in (b"", bytes(32), sealed[:32]):
        with pytest.raises(GateRefused, match="proof"):
            client.go_on(recorder, base64.b64encode(proof).decode())
    with pytest.raises(GateRefused, match="base64"):
        client.go_on(recorder, "no base64!")
    client.close()
    with site.guard:
        assert recorder_of(token) is None


def test_a_proof_for_one_token_is_none_for_another_and_none_hours_later(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = site.recorder(Opened.open, DECLARED).identity
    first, second = (Client(site.url, renewed(site)[1]) for _ in range(2))
    held = identity.box.open(base64.b64decode(first.challenge(identity.recorder)))
    proof = base64.b64encode(held).decode()
    with pytest.raises(GateRefused, match="proof"):
        second.go_on(identity.recorder, proof)
    with monkeypatch.context() as patched:
        later = datetime.now(UTC) + timedelta(hours=2)
        patched.setattr(clock.timezone, "now", lambda: later)
        with pytest.raises(GateRefused, match="proof"):
            first.go_on(identity.recorder, proof)
    first.go_on(identity.recorder, proof)
    first.go_on(identity.recorder, proof)
    with site.guard:
        assert RecorderToken.objects.count() == 1
    first.close()
    second.close()


def test_a_token_of_another_name_is_nobodys_to_go_on_with(site: Site) -> None:
    identity = site.recorder(Opened.open, DECLARED).identity
    _, secret = renewed(site, name="checks")
    client = Client(site.url, secret)
    with pytest.raises(GateRefused, match="token_name"):
        pairing.go_on(identity, client)
    client.close()
    with site.guard:
        assert not RecorderToken.objects.exists()


def test_whoever_paired_last_speaks_with_a_token_whatever_the_clocks_say(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = site.recorder(Opened.open, DECLARED).identity
    token, secret = renewed(site)
    client = Client(site.url, secret)
    (tmp_path / "other").mkdir()
    other = pairing.pair(tmp_path / "other", client, name="other", runtime={"name": "x", "version": "1"})
    behind = datetime.now(UTC) - timedelta(seconds=3)
    with monkeypatch.context() as patched:
        patched.setattr(clock.timezone, "now", lambda: behind)
        pairing.go_on(identity, client)
    with site.guard:
        found = recorder_of(token)
        assert found is not None
        assert found.uid == identity.recorder
    pairing.pair(tmp_path / "other", client, name="other", runtime={"name": "x", "version": "1"})
    client.close()
    with site.guard:
        found = recorder_of(token)
        assert found is not None
        assert found.uid == other.recorder


def test_nobody_of_another_workspace_and_no_importer_goes_on_here(site: Site) -> None:
    recorder = site.recorder(Opened.open, DECLARED).identity.recorder
    with site.guard:
        elsewhere = make_world("elsewhere").workspace
        Recorder.objects.create(
            uid=ids.mint("rec"),
            workspace=site.world.workspace,
            token=ApiToken.objects.filter(workspace=site.world.workspace)[0],
            name="import",
            runtime="import",
            box_key="",
            made_at=clock.now(),
        )
        importer = Recorder.objects.get(runtime="import").uid
    foreign = Client(site.url, renewed(site, workspace=elsewhere)[1])
    own = Client(site.url, renewed(site)[1])
    narrow = Client(site.url, renewed(site, ("ingest", "read"))[1])
    for client, named, status in ((foreign, recorder, 404), (own, importer, 404), (narrow, recorder, 401)):
        with pytest.raises(GateRefused) as refused:
            client.challenge(named)
        assert refused.value.status == status
        client.close()
    assert not Receipt.objects.filter(writer=importer).exists()


def test_a_server_that_says_so_of_the_challenge_too_is_asked_once(refuser: tuple[str, list[str]]) -> None:
    url, asked = refuser
    client = Client(url, "bgt_any")
    client.on_not_paired = lambda: asked.append(client.challenge("rec_" + "a" * 24))
    with pytest.raises(GateRefused, match="not_paired"):
        client.work(0)
    client.close()
    assert asked == ["/api/v1/recorder/work?wait=0", "/api/v1/recorders/challenge"]
