"""A small gate over HTTP that can be told to misbehave: a recorder is tried against it, not a server.

It pairs, takes receipts by the real schemas, signs permits and redeems once; it knows no people and no gates.
"""

import base64
import gzip
import hashlib
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from branches.evidence import boxes, canonical, ids, keys, schema
from branches.evidence.signing import Signer, sign_permit
from debugger.recorder.names import Declaration

KEY = keys.HmacKey("0badc0de", hashlib.sha256(b"workspace").digest())
SIGNER = Signer(hashlib.sha256(b"server").digest())
WORKFLOW_ID = "wf_" + "a" * 24
WORKFLOW_DIGEST = "sha256:" + "1" * 64
LEFT_OUT = object()
"""Stands for a member that a permit does not have."""


class Gate:
    """The state behind the routes; `errors` maps a route's name to a status it answers with."""

    def __init__(self, declaration: dict[str, Any]) -> None:
        self.declaration = declaration
        self.names = Declaration({"digest": "", "declaration": declaration}).names
        self.receipts: list[dict[str, Any]] = []
        self.events: dict[tuple[str, str], str] = {}
        self.duplicates = 0
        self.refused: list[tuple[str, str, str]] = []
        self.batches: list[int] = []
        self.recorders: dict[str, str] = {}
        self.redemptions: dict[str, str] = {}
        self.redeem_calls = 0
        self.at_redemption: Callable[[], None] = lambda: None
        """Called when a redemption is asked for, before it is answered."""
        self.redeem_refusals: list[str] = []
        """Rules with which the next redemptions are refused."""
        self.declined: list[tuple[str, str]] = []
        self.permits: list[dict[str, Any]] = []
        self.edits: dict[str, list[dict[str, Any]]] = {}
        self.leases = 0
        self.revoked_after: int | None = None
        self.content: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, str]] = {}
        self.errors: dict[str, int] = {}
        self.guard = threading.RLock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _routes(self))
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def of(self, run: str, kind: str) -> list[dict[str, Any]]:
        """Return the bodies of a run's receipts of one kind, as they arrived."""
        return [each["body"] for each in self.receipts if each["run"] == run and each["kind"] == kind]

    def run_id(self) -> str:
        """Return the newest root run."""
        return str([each["run"] for each in self.receipts if each["kind"] == "run_started"][-1])

    def started(self) -> dict[str, Any]:
        started: dict[str, Any] = [each["body"] for each in self.receipts if each["kind"] == "run_started"][
            -1
        ]
        return started

    def permit(self, *, checkpoint: dict[str, Any], **changed: Any) -> dict[str, Any]:
        """Issue a permit for a fresh branch of the newest root run at a recorded checkpoint."""
        run, started = self.run_id(), self.started()
        now = datetime.now(UTC)
        parts = pinned_parts(started["configuration"])
        bound = {
            "parent": run,
            "root": run,
            "checkpoint": checkpoint["checkpoint"],
            "external_ref": started["external_ref"],
            "workflow": self.declaration["workflow"],
            "workflow_version": self.declaration["version"],
            "topology": started["configuration"]["routing"],
            "configuration": canonical.digest(canonical.CONFIGURATION, parts),
            "configuration_parts": parts,
            "state": {name: each["fingerprint"] for name, each in checkpoint["state"].items()},
            "edits": [],
            "operations": {},
        }
        claims = {
            "permit": ids.mint("prm"),
            "branch": ids.mint("br"),
            "audience": next(iter(self.recorders.values())),
            "subject_digest": "sha256:" + "0" * 64,
            "issued_at": now.isoformat(),
            "expires_at": (now + timedelta(minutes=10)).isoformat(),
        }
        bound |= {name: value for name, value in changed.items() if name in bound}
        claims |= {name: value for name, value in changed.items() if name in claims}
        bound = {name: value for name, value in bound.items() if value is not LEFT_OUT}
        return sign_permit({**claims, "bound": bound}, SIGNER)

    def edit(
        self, envelope_edits: list[tuple[str, str]], state_key: str | None = None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return (bound, sealed) edits for (target, text) pairs: of messages, or of a state key's values."""
        public = base64.b64decode(next(iter(self.recorders)))
        bound, sealed = [], []
        for target, text in envelope_edits:
            each = {
                "edit": KEY.digest("edit", text),
                "edit_class": "add_detail",
                "target": target,
                "state_key": state_key,
            }
            box = boxes.seal(public, json.dumps({"text": text}).encode())
            bound.append(each)
            sealed.append({**each, "sealed": base64.b64encode(box).decode()})
        return bound, sealed


def pinned_parts(configuration: dict[str, Any], **changed: str | None) -> dict[str, str | None]:
    """Return a run's configuration flat, as the server pins it."""
    parts = {
        f"{agent['agent']}.{part}": agent[part]
        for agent in configuration["agents"]
        for part in ("role", "model", "prompt", "tools")
    }
    return {**parts, "routing": configuration["routing"], "workflow": WORKFLOW_DIGEST, **changed}


def claims_of(envelope: dict[str, Any]) -> dict[str, Any]:
    """Return what an envelope says."""
    claims: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return claims


def _routes(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Routes(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self._route(b"")

        def do_POST(self) -> None:
            self._route(self.rfile.read(int(self.headers.get("Content-Length", 0))))

        def _route(self, raw: bytes) -> None:
            path = self.path.split("?")[0].removeprefix("/api/v1/").split("/")
            name = path[0] if path[0] not in {"permits", "branches"} else path[-1]
            if self.headers.get("Authorization") != "Bearer secret-token":
                return self._say(401, {"error": {"field": "", "rule": "token"}})
            if (status := gate.errors.get(name)) is not None:
                return self._say(status, {"error": {"field": "", "rule": "told_to"}})
            if self.headers.get("Content-Encoding") == "gzip":
                raw = gzip.decompress(raw)
            with gate.guard:
                return self._say(*_answer(gate, name, path, raw))

        def _say(self, status: int, body: dict[str, Any]) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Routes


def _answer(gate: Gate, name: str, path: list[str], raw: bytes) -> tuple[int, dict[str, Any]]:
    if name == "receipts":
        return _receipts(gate, raw)
    body = json.loads(raw) if raw else {}
    if name == "recorders":
        return _pair(gate, body)
    if name == "workflows":
        return 200, {"workflow": WORKFLOW_ID, "digest": WORKFLOW_DIGEST, "declaration": gate.declaration}
    if name == "recorder":
        permits, gate.permits = gate.permits, []
        content, gate.content = gate.content, []
        return 200, {"permits": permits, "content": content, "stop": []}
    if name == "edits":
        return 200, {"edits": gate.edits.get(path[1], [])}
    if name == "redeem":
        return _redeem(gate, path[1], body)
    if name == "decline":
        gate.declined.append((path[1], body["rule"]))
        return 200, {"ok": True}
    if name == "lease":
        gate.leases += 1
        go = gate.revoked_after is None or gate.leases <= gate.revoked_after
        return 200, {"go": go, "rule": None if go else "revoked"}
    gate.answers[path[1]] = body
    return 200, {"ok": True}


def _pair(gate: Gate, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    recorder = gate.recorders.setdefault(body["box_key"], ids.mint("rec"))
    sealed = boxes.seal(base64.b64decode(body["box_key"]), KEY.secret)
    return 201, {
        "recorder": recorder,
        "workspace": "ws_" + "a" * 24,
        "server_key": {"key_id": SIGNER.key_id, "public": base64.b64encode(SIGNER.public_bytes).decode()},
        "hmac_key": {"key_id": KEY.key_id, "sealed": base64.b64encode(sealed).decode()},
    }


def _redeem(gate: Gate, permit: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    gate.redeem_calls += 1
    gate.at_redemption()
    if gate.redeem_refusals:
        return 409, {"error": {"field": "", "rule": gate.redeem_refusals.pop(0)}}
    if gate.redemptions.setdefault(permit, body["attempt"]) != body["attempt"]:
        return 409, {"error": {"field": "", "rule": "already_redeemed"}}
    answer = {"branch": "", "attempt": body["attempt"], "redeemed_at": "", "lease_s": 2}
    return 200, answer


def _receipts(gate: Gate, raw: bytes) -> tuple[int, dict[str, Any]]:
    lines = raw.rstrip(b"\n").split(b"\n")
    gate.batches.append(len(lines))
    accepted = duplicates = 0
    refused = []
    for number, line in enumerate(lines, 1):
        sent = json.loads(line)
        try:
            schema.check_sent(sent, kinds=schema.OUTSIDE_KINDS)
            schema.check_declared(sent, gate.names)
        except ValueError as error:
            field, rule = getattr(error, "field", ""), getattr(error, "rule", "form")
            refused.append({"line": number, "field": field, "rule": rule})
            gate.refused.append((sent.get("kind"), field, rule))
            continue
        own = (sent["run"], sent["event_id"])
        if own in gate.events:
            if gate.events[own] != line.decode():
                refused.append({"line": number, "field": "event_id", "rule": "conflict"})
                gate.refused.append((sent["kind"], "event_id", "conflict"))
                continue
            duplicates += 1
            continue
        gate.events[own] = line.decode()
        gate.receipts.append(sent)
        accepted += 1
    gate.duplicates += duplicates
    status = 200 if not refused else 207 if accepted or duplicates else 422
    return status, {"accepted": accepted, "duplicates": duplicates, "refused": refused, "heads": {}}
