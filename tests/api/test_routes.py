"""The machines' API, as a recorder and as a stranger see it."""

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import end_token, issue_token, token_digest
from branches.commands.issue_permit import issue_permit
from branches.evidence import chain, ids
from branches.evidence.boxes import BoxKey
from branches.evidence.signing import verify_permit
from branches.models import ApiToken, Receipt
from branches.queries.clock import now
from branches.queries.secrets import signer
from tests.branches.test_branch_life import approve, fork, settle
from tests.builders import World, failed_run, make_world, message, run_started
from tests.plugins import FakeWorld

MARKER = "CONTENT-MARKER-7f3a"


@pytest.fixture
def call(client: Client, world: World) -> Callable[..., Any]:
    """Call a route with a token, the recorder's unless another is given."""

    def caller(method: str, path: str, body: Any = None, token: str | None = None, **headers: str) -> Any:
        headers = {"Authorization": f"Bearer {token or world.token}", **headers}
        content_type = "application/json"
        if isinstance(body, bytes):
            content_type = "application/x-ndjson"
        elif body is not None:
            body = json.dumps(body)
        return client.generic(method, f"/api/v1{path}", body or b"", content_type, headers=headers)

    return caller


def ndjson(*receipts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(receipt).encode() + b"\n" for receipt in receipts)


def test_a_batch_is_answered_with_its_heads(call: Callable[..., Any], world: World) -> None:
    uid = ids.mint("run")
    answer = call("POST", "/receipts", ndjson(run_started(world, uid), message(world, uid, "a")))
    assert answer.status_code == 200
    row = Receipt.objects.get(run__uid=uid, seq=2)
    assert answer.json() == {
        "accepted": 2,
        "duplicates": 0,
        "refused": [],
        "heads": {uid: {"seq": 2, "digest": row.digest}},
    }


def test_a_mixed_batch_is_207_and_a_wholly_refused_one_422(call: Callable[..., Any], world: World) -> None:
    uid = ids.mint("run")
    bad = {**message(world, uid, "a"), "kind": MARKER}
    mixed = call("POST", "/receipts", ndjson(run_started(world, uid), bad))
    assert mixed.status_code == 207
    assert mixed.json()["refused"] == [{"line": 2, "field": "kind", "rule": "enum"}]
    assert call("POST", "/receipts", ndjson(bad)).status_code == 422
    atomic = call("POST", "/receipts?atomic=true", ndjson(message(world, uid, "b"), bad))
    assert (atomic.status_code, atomic.json()["accepted"]) == (422, 0)
    assert MARKER.encode() not in mixed.content + atomic.content


def test_gzip_is_unpacked_within_the_limit(call: Callable[..., Any], world: World) -> None:
    uid = ids.mint("run")
    packed = gzip.compress(ndjson(run_started(world, uid)))
    assert call("POST", "/receipts", packed, **{"Content-Encoding": "gzip"}).status_code == 200
    bomb = gzip.compress(b" " * (2 * 1024 * 1024))
    refused = call("POST", "/receipts", bomb, **{"Content-Encoding": "gzip"})
    assert (refused.status_code, refused.json()["error"]["rule"]) == (413, "max_bytes")
    broken = call("POST", "/receipts", packed[:-6], **{"Content-Encoding": "gzip"})
    assert (broken.status_code, broken.json()["error"]["rule"]) == (400, "gzip")


def test_a_body_over_its_limits_is_413(call: Callable[..., Any]) -> None:
    assert call("POST", "/receipts", b"x" * (1024 * 1024 + 1)).status_code == 413
    lines = call("POST", "/receipts", b"{}\n" * 1001)
    assert (lines.status_code, lines.json()["error"]["rule"]) == (413, "max_lines")


def test_another_content_type_is_415(call: Callable[..., Any], client: Client, world: World) -> None:
    headers = {"Authorization": f"Bearer {world.token}"}
    answer = client.post("/api/v1/receipts", b"x", content_type="text/plain", headers=headers)
    assert (answer.status_code, answer.json()["error"]["rule"]) == (415, "content_type")


def test_without_a_usable_token_nothing_is_said(call: Callable[..., Any], world: World) -> None:
    row, read_only = issue_token(workspace=world.workspace, name="reader", scopes=["read"])
    assert call("GET", "/runs", token=read_only).status_code == 200
    assert call("POST", "/receipts", b"{}", token=read_only).status_code == 401
    assert call("GET", "/runs", token="bgt_nobody").status_code == 401
    end_token(token=row)
    assert call("GET", "/runs", token=read_only).status_code == 401


def test_a_tokens_secret_is_kept_as_a_digest_only(world: World) -> None:
    row = ApiToken.objects.get(name="recorder")
    assert row.digest == token_digest(world.token)
    assert world.token not in repr(vars(row))


def test_what_belongs_to_another_workspace_is_404(call: Callable[..., Any], world: World) -> None:
    run = failed_run(world)
    other = make_world("other")
    for path in (f"/runs/{run.uid}", f"/runs/{run.uid}/receipts", f"/runs/{run.uid}/checkpoints"):
        assert call("GET", path).status_code == 200
        assert call("GET", path, token=other.token).status_code == 404
    assert call("GET", f"/branches/{run.uid}").status_code == 404


def test_the_export_is_the_exact_bytes(call: Callable[..., Any], world: World) -> None:
    run = failed_run(world)
    lines = b"".join(call("GET", f"/runs/{run.uid}/receipts").streaming_content).splitlines()
    assert [line.decode() for line in lines] == list(
        Receipt.objects.filter(run=run).order_by("seq").values_list("body", flat=True)
    )
    assert chain.verify_chain(lines, expect_first_prev=None, run=run.uid).ok


def test_pairing_gives_the_key_sealed_and_is_idempotent(call: Callable[..., Any], world: World) -> None:
    box = BoxKey.generate()
    body = {
        "name": "laptop",
        "box_key": base64.b64encode(box.public).decode(),
        "runtime": {"name": "langgraph", "version": "1.2.24"},
    }
    first = call("POST", "/recorders/pair", body)
    assert first.status_code == 201
    secret = box.open(base64.b64decode(first.json()["hmac_key"]["sealed"]))
    assert len(secret) == 32
    again = call("POST", "/recorders/pair", body)
    assert (again.status_code, again.json()["recorder"]) == (200, first.json()["recorder"])
    wrong = call("POST", "/recorders/pair", {**body, "box_key": "AAAA"})
    assert wrong.json()["error"] == {"field": "box_key", "rule": "bytes:32", "changed": []}
    unknown = call("POST", "/recorders/pair", {**body, MARKER: 1})
    assert unknown.status_code == 422
    assert MARKER not in unknown.content.decode()


def test_a_permit_waits_for_its_recorder_and_is_redeemed_once(
    call: Callable[..., Any], world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    permit = issue_permit(person=world.ada, branch=branch)
    work = call("GET", "/recorder/work").json()
    keys = {signer().key_id: signer().public_bytes}
    claims = verify_permit(work["permits"][0], keys, audience=world.recorder.uid, now=now())
    assert (claims.permit, claims.branch) == (permit.uid, branch.uid)
    assert claims.bound["operations"] == {
        world.operation("ticket"): {"do": "reuse", "payload": world.hmac("payload", "ticket")},
        world.operation("mail"): {"do": "skip", "payload": world.hmac("payload", "mail")},
    }
    attempt = ids.mint("att")
    body = {"recorder": world.recorder.uid, "attempt": attempt}
    first = call("POST", f"/permits/{permit.uid}/redeem", body)
    assert (first.status_code, first.json()["branch"]) == (200, branch.uid)
    assert call("POST", f"/permits/{permit.uid}/redeem", body).json() == first.json()
    other = call("POST", f"/permits/{permit.uid}/redeem", {**body, "attempt": ids.mint("att")})
    assert (other.status_code, other.json()["error"]["rule"]) == (409, "already_redeemed")
    assert call("GET", "/recorder/work").json()["permits"] == []
    lease = call("POST", f"/branches/{branch.uid}/lease", {"attempt": attempt})
    assert lease.json() == {"go": True, "rule": None}
    stranger = call("POST", f"/branches/{branch.uid}/lease", {"attempt": ids.mint("att")})
    assert stranger.json() == {"go": False, "rule": "not_redeemed"}


def test_a_branch_shows_its_gates_evidence_and_effects(
    call: Callable[..., Any], world: World, outside: FakeWorld
) -> None:
    branch = fork(world, failed_run(world))
    found = call("GET", f"/branches/{branch.uid}").json()
    assert [gate["gate"] for gate in found["gates"]] == [
        "lineage", "state", "effects", "authority", "configuration", "outcome",
    ]  # fmt: skip
    assert (found["status"], found["next_action"]) == ("restore_uncertain", "capture_or_probe_state")
    settle(world, branch, outside)
    keys = call("GET", f"/branches/{branch.uid}/evidence").json()["keys"]
    assert [(key["key"], key["restore"]) for key in keys] == [
        ("agent_memory", "matched"),
        ("browser", "matched"),
    ]
    effects = call("GET", f"/branches/{branch.uid}/effects").json()["effects"]
    assert [(line["tool"], line["status"], line["decision"]) for line in effects] == [
        ("create_ticket", "reconciled", None),
        ("send_mail", "irreversible", "skip"),
    ]


def test_every_kind_has_a_schema_and_the_api_describes_itself(client: Client) -> None:
    kinds = client.get("/api/v1/schemas").json()["kinds"]
    assert "effect_intended" in kinds
    for kind in kinds:
        assert client.get(f"/api/v1/schemas/{kind}").json()["title"] == kind
    assert client.get("/api/v1/schemas/nothing").status_code == 404
    described = client.get("/api/v1/openapi.json").json()
    assert "/api/v1/receipts" in described["paths"]
