"""Every route of the machines' API with what no machine should send: never a failure, never an echo."""

import gzip
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from django.test import Client

from branches.commands.admit import end_token, issue_token
from branches.commands.issue_permit import issue_permit
from branches.evidence import ids
from branches.models import ApiToken, Receipt, Recorder, Run, Workflow
from tests.branches.test_branch_life import approve, fork, settle
from tests.builders import World, declaration, failed_run, make_world, message, run_started
from tests.plugins import FakeWorld

MARKER: Final = "CONTENT-MARKER-7f3a"
NAMES: Final = (
    MARKER,
    "%00",
    f"run_%00{MARKER}",
    "%ff%fe",
    "%ED%A0%80",
    "..%2f..%2fetc",
    "x" * 3000,
    "'%3B%20DROP%20TABLE%20x",
    "%F0%9F%92%A9",
    "run_" + "a" * 24 + "%0a",
)
READS: Final = (
    "/runs/{}",
    "/runs/{}/receipts",
    "/runs/{}/checkpoints",
    "/runs/{}/checkpoints?from_seq=99999999999999999999999999",
    "/branches/{}",
    "/branches/{}/outcome",
    "/workflows/{}/1.0.0",
    "/workflows/desk/{}",
    "/permits/{}/edits",
    "/schemas/{}",
)
WRITES: Final = (
    "/permits/{}/redeem",
    "/permits/{}/decline",
    "/branches/{}/lease",
    "/content/{}",
)
QUERIES: Final = (
    "/recorder/work?wait=nan",
    "/recorder/work?wait=inf",
    f"/recorder/work?wait={MARKER}",
    "/recorder/work?wait=1e999",
    f"/runs/x?from_seq={MARKER}",
    "/runs/{run}/receipts?from_seq=1e9",
    f"/runs/{{run}}/checkpoints?from_seq={MARKER}",
)
BODIES: Final = (
    b"{",
    b"null",
    b"[]",
    b'"' + MARKER.encode() + b'"',
    b"\xff\xfe\x00" + MARKER.encode(),
    b'{"attempt": NaN, "recorder": Infinity, "name": -Infinity}',
    b'{"attempt": "' + b"a" * 200 + b'", "recorder": 7}',
    b'{"' + MARKER.encode() + b'": 1, "attempt": 1}',
    b'{"attempt": "\\ud800", "recorder": "\\udfff", "rule": "\\ud800", "name": "\\ud800"}',
    b'{"attempt": "\\u0000", "recorder": "\\u0000", "rule": "\\u0000", "sealed": "\\u0000"}',
    b'{"attempt": {"$ne": null}, "recorder": [], "declaration": "x", "sealed": {}}',
    b'{"rule": "ok", "rule": "' + MARKER.encode() + b'", "recorder": "x"}',
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b'{"attempt": ' + b"9" * 5_000 + b"}",
    b" " * (2 * 1024 * 1024 + 1),
    b'{"declaration": {"workflow": "' + MARKER.encode() + b'"}}',
)


@pytest.fixture
def call(client: Client, world: World) -> Callable[..., Any]:
    client.raise_request_exception = False

    def caller(method: str, path: str, body: bytes = b"", token: str | None = None, **headers: str) -> Any:
        headers = {"Authorization": f"Bearer {token or world.token}", **headers}
        return client.generic(method, f"/api/v1{path}", body, "application/json", headers=headers)

    return caller


def said(answer: Any) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def counts() -> tuple[int, ...]:
    return tuple(model.objects.count() for model in (Run, Receipt, Recorder, Workflow, ApiToken))


def test_a_name_that_is_none_is_not_found_and_never_repeated(
    call: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    before = counts()
    lease = json.dumps({"attempt": ids.mint("att")}).encode()
    for name in NAMES:
        for path in READS:
            answer = call("GET", path.format(name))
            assert answer.status_code in {404, 422}, (path, name, answer.status_code)
            assert MARKER.encode() not in said(answer).replace(b"/api/v1", b""), (path, name)
        for path in WRITES:
            answer = call("POST", path.format(name), lease)
            assert answer.status_code in {404, 422}, (path, name, answer.status_code)
            assert MARKER.encode() not in said(answer)
        assert call("GET", f"/runs?after={name}").status_code == 200
    assert counts() == before
    assert MARKER not in caplog.text


def test_a_query_that_is_none_is_refused_at_once(call: Callable[..., Any], world: World) -> None:
    run = failed_run(world)
    for path in QUERIES:
        answer = call("GET", path.format(run=run.uid))
        assert answer.status_code in {404, 422}, path
        assert MARKER.encode() not in said(answer)
    assert call("GET", f"/runs/{run.uid}/receipts?from_seq=-5").status_code == 200
    huge = call("GET", f"/runs/{run.uid}/receipts?from_seq=99999999999999999999999999")
    assert (huge.status_code, said(huge)) == (200, b"")
    assert call("GET", f"/runs/{run.uid}/checkpoints?from_seq=99999999999999999999999999").json() == {
        "checkpoints": []
    }


def test_a_body_that_is_none_is_refused_in_the_one_form(
    call: Callable[..., Any], world: World, outside: FakeWorld, caplog: pytest.LogCaptureFixture
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    before = counts()
    paths = [
        "/recorders/pair",
        "/workflows",
        f"/permits/{permit.uid}/redeem",
        f"/permits/{permit.uid}/decline",
        f"/branches/{branch.uid}/lease",
        f"/content/{ids.mint('req')}",
    ]
    for path in paths:
        for body in BODIES:
            answer = call("POST", path, body)
            assert 400 <= answer.status_code < 500, (path, body[:40], answer.status_code)
            assert set(answer.json()["error"]) >= {"field", "rule"}
            assert MARKER.encode() not in answer.content, (path, body[:40])
    assert counts() == before
    assert not hasattr(permit, "redemption")
    assert MARKER not in caplog.text


def test_a_batch_that_is_none_stores_nothing_and_fails_nowhere(
    call: Callable[..., Any], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    run = failed_run(world)
    before = counts()
    for line in hostile_lines(world, run.uid):
        answer = call("POST", "/receipts", line)
        assert 400 <= answer.status_code < 500, (line[:60], answer.status_code)
        assert MARKER.encode() not in answer.content, line[:60]
    assert counts() == before
    assert MARKER not in caplog.text


def hostile_lines(world: World, run: str) -> Iterator[bytes]:
    """Yield single lines, none of which may be stored."""
    good = message(world, run, "hostile")
    yield from (body.replace(b"\n", b" ") for body in BODIES if body.strip() and len(body) < 1_000_000)
    texts = (
        MARKER,
        "\u0000",
        "a\u0000b",
        "\ud800",
        "\u2028",
        "x" * 9000,
        "",
        " ",
        "\n",
        "run_" + "a" * 24 + "\n",
    )
    for text in texts:
        for field in ("event_id", "run", "kind", "at"):
            yield json.dumps({**good, field: text}).encode()
        for field in good["body"]:
            yield json.dumps({**good, "body": {**good["body"], field: text}}).encode()
        yield json.dumps({**good, "actor": {"type": "recorder", "id": text}}).encode()
    for number in (-1, 2**53, 10**400, 1.5, True, None, [], {}):
        yield json.dumps({**good, "writer_seq": number, "v": number}).encode()
        yield json.dumps({**good, "body": number}).encode()
    yield json.dumps({**good, MARKER: 1}).encode()
    yield json.dumps({**good, "body": {**good["body"], MARKER: 1}}).encode()
    yield json.dumps(good).encode().replace(b'"v": 1', b'"v": 1, "v": 1')
    yield json.dumps({**good, "body": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}).encode()


def test_compressed_bodies_hold_no_surprise(call: Callable[..., Any], world: World) -> None:
    uid = ids.mint("run")
    good = json.dumps(run_started(world, uid)).encode()
    bombs = {
        413: [gzip.compress(b"0" * 200_000_000, 9)[:900_000], gzip.compress(b"\n" * (1024 * 1024 + 1))],
        400: [
            b"no gzip",
            gzip.compress(good)[:-4],
            gzip.compress(good) + gzip.compress(json.dumps(message(world, uid, "lost")).encode()),
            gzip.compress(good) + MARKER.encode(),
        ],
    }
    for status, packed in bombs.items():
        for body in packed:
            assert call("POST", "/receipts", body, **{"Content-Encoding": "gzip"}).status_code == status
    for encoding in ("br", "deflate", "gzip, gzip", MARKER):
        answer = call("POST", "/receipts", good, **{"Content-Encoding": encoding})
        assert (answer.status_code, MARKER.encode() in answer.content) == (415, False)
    assert not Run.objects.filter(uid=uid).exists()


def hostile_declarations() -> Iterator[dict[str, Any]]:
    """Yield declarations, none of which may be published; each breaks one rule."""
    good = declaration(version="9.9.9")
    for value in (5, "x", [], {}, None, True, 1.5, [[]], [{}], {MARKER: 1}, [MARKER + " said"], "two words"):
        for field in ("runtime", "version", "state_keys", "outcome", "limits"):
            if value != "x" or field not in {"runtime", "version"}:  # as a name it would do
                yield {**good, field: value}
        if value != {}:  # no tools at all are allowed
            yield {**good, "tools": value}
        yield {**good, "destinations": value}
    for field in ("facts", "contract", "validators", "capabilities", "progress", "models", "phase"):
        yield {**good, field: 5}
        yield {**good, field: {f"{MARKER} is free text": ["x"]}}
        yield {**good, field: {"word": f"{MARKER} is free text"}}
    yield {**good, "facts": {"word": 5}}
    yield {**good, "facts": {"word": [["x"]]}}
    for value in ([], {}, 5, ["mail"], f"{MARKER} mail"):
        yield {**good, "tools": {"send": {"destination": value, "effect_class": "irreversible"}}}
        yield {**good, "tools": {"send": {"destination": "mail", "effect_class": value}}}
    for seconds in (0, -1, 10**12, 2**60, True, "900"):
        yield {**good, "limits": {"max_age_s": seconds, "start_s": 60}}
        yield {
            **good,
            "limits": {"max_age_s": 900, "start_s": 60, "steps": seconds if seconds != 10**12 else 0},
        }
    yield {**good, "agents": [f"a{number}" for number in range(20_000)]}
    yield {**good, "contract": {"version": "1", "agents": [], "edges": [], "phases": {"a": [f"{MARKER} b"]}}}
    yield {**good, MARKER: 1}


def test_a_declaration_that_breaks_a_rule_is_refused_before_it_breaks_the_record(
    call: Callable[..., Any], world: World, caplog: pytest.LogCaptureFixture
) -> None:
    before = counts()
    number = 0
    for number, declared in enumerate(hostile_declarations(), 1):  # noqa: B007 - the last one is counted below
        answer = call("POST", "/workflows", json.dumps({"declaration": declared}).encode())
        assert 400 <= answer.status_code < 500, (declared, answer.status_code)
        assert MARKER.encode() not in answer.content
    assert number > 100
    assert counts() == before
    assert MARKER not in caplog.text
    assert (
        call(
            "POST", "/workflows", json.dumps({"declaration": declaration(version="9.9.9")}).encode()
        ).status_code
        == 201
    )


def test_a_recorder_cannot_pair_with_a_key_that_seals_nothing(call: Callable[..., Any]) -> None:
    import base64

    before = counts()
    runtime = {"name": "langgraph", "version": "1.2.24"}
    for key in (bytes(32), b"\1" + bytes(31), b"x", b""):
        body = {"name": "here", "runtime": runtime, "box_key": base64.b64encode(key).decode()}
        answer = call("POST", "/recorders/pair", json.dumps(body).encode())
        assert (answer.status_code, answer.json()["error"]["field"]) == (409, "box_key")
    good = base64.b64encode(b"\x09" + bytes(31)).decode()
    for name in (f"{MARKER} of Ada", "a\u0000b", "", "x" * 97, "a\nb", "\u202eb"):
        for body in (
            {"name": name, "runtime": runtime, "box_key": good},
            {"name": "here", "runtime": {**runtime, "name": name}, "box_key": good},
            {"name": "here", "runtime": {**runtime, "version": name}, "box_key": good},
        ):
            answer = call("POST", "/recorders/pair", json.dumps(body).encode())
            assert answer.status_code == 422
            assert MARKER.encode() not in answer.content
    assert counts() == before


def test_each_route_wants_its_scope_and_a_living_token(call: Callable[..., Any], world: World) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    scopes = {
        "ingest": [("POST", "/receipts"), ("GET", "/workflows/desk/1.0.0"), ("POST", "/workflows")],
        "read": [
            ("GET", "/runs"),
            ("GET", f"/runs/{run.uid}"),
            ("GET", f"/runs/{run.uid}/receipts"),
            ("GET", f"/runs/{run.uid}/checkpoints"),
            ("GET", f"/branches/{branch.uid}"),
            ("GET", f"/branches/{branch.uid}/outcome"),
        ],
        "outcome": [("POST", f"/branches/{branch.uid}/outcome")],
        "redeem": [
            ("POST", "/recorders/pair"),
            ("GET", "/recorder/work"),
            ("GET", f"/permits/{ids.mint('prm')}/edits"),
            ("POST", f"/permits/{ids.mint('prm')}/redeem"),
            ("POST", f"/permits/{ids.mint('prm')}/decline"),
            ("POST", f"/branches/{branch.uid}/lease"),
            ("POST", f"/content/{ids.mint('req')}"),
        ],
    }
    issue = {"workspace": world.workspace, "name": "narrow"}
    ended, dead = issue_token(**issue, scopes=list(scopes))
    end_token(token=ended)
    _, expired = issue_token(**issue, scopes=list(scopes), lives=timedelta(seconds=-1))
    for scope, routes in scopes.items():
        _, other = issue_token(**issue, scopes=sorted(scopes.keys() - {scope}))
        _, right = issue_token(**issue, scopes=[scope])
        for method, path in routes:
            for token in (other, dead, expired, "bgt_nobody", "", MARKER, "\u00ff" * 20):
                answer = call(method, path, b"{}", token=token or " ")
                assert (answer.status_code, MARKER.encode() in answer.content) == (401, False), (path, token)
            assert call(method, path, b"{}", token=right).status_code != 401, path


def test_another_workspace_finds_nothing_of_this_one(
    call: Callable[..., Any], world: World, outside: FakeWorld
) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    other = make_world("other")
    before = Receipt.objects.count()
    attempt = {"recorder": other.recorder.uid, "attempt": ids.mint("att")}
    asked: list[tuple[str, str, dict[str, Any]]] = [
        *(("GET", path.format(uid), {}) for path in READS[:3] for uid in (run.uid, branch.uid)),
        *(("GET", path.format(branch.uid), {}) for path in READS[4:6]),
        ("GET", f"/permits/{permit.uid}/edits", {}),
        ("POST", f"/permits/{permit.uid}/redeem", attempt),
        ("POST", f"/permits/{permit.uid}/decline", {"recorder": other.recorder.uid, "rule": "no"}),
        ("POST", f"/branches/{branch.uid}/lease", {"attempt": attempt["attempt"]}),
        ("POST", f"/branches/{branch.uid}/outcome", {}),
    ]
    for method, path, body in asked:
        assert call(method, path, json.dumps(body).encode(), token=other.token).status_code == 404, path
    assert call("GET", "/runs", token=other.token).json() == {"runs": []}
    assert call("GET", "/recorder/work", token=other.token).json() == {
        "permits": [],
        "content": [],
        "stop": [],
    }
    stolen = call(
        "POST",
        f"/permits/{permit.uid}/redeem",
        json.dumps({**attempt, "recorder": world.recorder.uid}).encode(),
        token=other.token,
    )
    assert stolen.status_code in {404, 409}
    assert Receipt.objects.count() == before


def test_a_plug_in_that_fails_is_no_redemption_and_says_nothing(
    call: Callable[..., Any],
    world: World,
    outside: FakeWorld,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from tests.plugins import FakeVerifier

    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)

    def fails(*_arguments: object) -> None:
        raise RuntimeError(MARKER)

    monkeypatch.setattr(FakeVerifier, "baseline", fails)
    body = {"recorder": world.recorder.uid, "attempt": ids.mint("att")}
    answer = call("POST", f"/permits/{permit.uid}/redeem", json.dumps(body).encode())
    assert (answer.status_code, answer.json()["error"]["rule"]) == (409, "baseline_unreachable")
    monkeypatch.undo()
    assert MARKER not in caplog.text


def test_a_failure_of_our_own_shows_neither_in_the_answer_nor_in_the_log_what_it_was_about(
    call: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_arguments: object, **_named: object) -> None:
        raise RuntimeError(MARKER)

    monkeypatch.setattr("debugger.api.record_routes.runs_json", fails)
    answer = call("GET", "/runs")
    assert (answer.status_code, answer.json()["error"]["rule"]) == (500, "internal")
    assert "RuntimeError" in caplog.text
    assert MARKER not in caplog.text
    said = next(each.getMessage() for each in caplog.records if each.name == "debugger.api.errors")
    assert "test_bodies.py:" in said
    assert "/" not in said
