"""OTLP over HTTP: a stock exporter's traces become runs; what cannot be taken is answered by protocol."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from django.db import InterfaceError, OperationalError
from django.test import Client
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from requests.adapters import BaseAdapter

from branches.commands.admit import issue_token
from branches.commands.refusal import Refused
from branches.models import Receipt, Run
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.receipts import verify_run
from branches.registry import PluginMissing
from debugger.api.otlp_status import as_protobuf
from debugger.intake import MemoryShelf
from tests.builders import World

DATA = Path(__file__).resolve().parents[1] / "adapters" / "data" / "otlp"
MARKER = "CONTENT-MARKER-7f3a"
URL = "/v1/traces"
PROTOBUF = "application/x-protobuf"
JSON = "application/json"
EMPTY = b"\x0a\x00"
"""Spans of one resource, and none in it: a body without a byte is sent without its content type here."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MemoryShelf()
    monkeypatch.setattr("debugger.intake.shelf", lambda: shelf)


def send(
    client: Client, world: World, body: bytes, content_type: str, token: str = "", **headers: str
) -> Any:
    headers = {"Authorization": f"Bearer {token or world.token}", **headers}
    return client.post(URL, body, content_type=content_type, headers=headers)


def said(answer: Any, content_type: str) -> tuple[int, str]:
    """Return the code and message of a failure, which is a Status in the request's encoding, and no more."""
    assert MARKER.encode() not in answer.content
    media = PROTOBUF if content_type == PROTOBUF else JSON
    assert answer.headers["Content-Type"] == media
    if media == PROTOBUF:
        read = Status.FromString(answer.content)
        return read.code, read.message
    told = answer.json()
    assert set(told) == {"code", "message"}
    return told["code"], told["message"]


def stops(run: Run) -> list[str]:
    return [str(each.verdict.state) for each in audits_now(run, now()).stops]


class ToDjango(BaseAdapter):
    """Carries what the stock exporter sends to our routes, in this thread and its database transaction."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client

    def send(self, request: Any, *_: Any, **__: Any) -> requests.Response:
        headers = {name: value for name, value in request.headers.items() if name != "Content-Type"}
        answer = self.client.post(
            URL, request.body, content_type=request.headers["Content-Type"], headers=headers
        )
        response = requests.Response()
        response.status_code = answer.status_code
        response.raw = io.BytesIO(answer.content)
        return response

    def close(self) -> None:
        pass


@pytest.fixture
def tracer(client: Client, world: World) -> Iterator[Any]:
    """A program's tracer with the stock exporter, pointed at us by nothing but address and token."""
    session = requests.Session()
    session.mount("http://", ToDjango(client))
    exporter = OTLPSpanExporter(
        endpoint=f"http://branchgate{URL}",
        headers={"Authorization": f"Bearer {world.token}"},
        compression=Compression.Gzip,
        session=session,
    )
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test")
    provider.shutdown()


def test_a_stock_exporter_needs_an_address_and_a_token(tracer: Any) -> None:
    """Each span comes in a request of its own, the root last: they are still one run."""
    with (
        tracer.start_as_current_span(
            "invoke_agent triage",
            attributes={
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "triage",
                "note": MARKER,
            },
        ),
        tracer.start_as_current_span(
            "execute_tool lookup",
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "lookup",
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": MARKER,
            },
        ),
    ):
        pass
    run = Run.objects.get()
    kinds = list(Receipt.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))
    assert kinds.count("run_started") == 1
    assert kinds.count("effect_intended") == 1
    assert "stopped" in kinds
    assert MARKER not in "".join(Receipt.objects.values_list("body", flat=True))
    assert verify_run(run).ok


@pytest.mark.parametrize(
    "name", ["manual_pb_plain_01", "manual_pb_gzip_01", "manual_json_plain_01", "manual_json_gzip_01"]
)
def test_a_captured_request_gives_the_same_runs_in_every_encoding(
    client: Client, world: World, name: str
) -> None:
    (path,) = [each for each in DATA.iterdir() if each.name.startswith(name) and "headers" not in each.name]
    content_type = "application/json" if ".json" in path.name else "application/x-protobuf"
    headers = {"Content-Encoding": "gzip"} if path.suffix == ".gz" else {}
    answer = send(client, world, path.read_bytes(), content_type, **headers)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, content_type)
    assert answer.content == (b"{}" if content_type == "application/json" else b"")
    runs = Run.objects.filter(workspace=world.workspace)
    assert sorted(state for run in runs for state in stops(run)) == ["failed", "false_complete"]
    again = send(client, world, path.read_bytes(), content_type, **headers)
    before = Receipt.objects.count()
    assert (again.status_code, Receipt.objects.count()) == (200, before)
    assert MARKER not in "".join(Receipt.objects.values_list("body", flat=True))


@pytest.mark.parametrize(
    ("body", "content_type", "encoding", "status", "message"),
    [
        (b"{", JSON, None, 400, "body: json"),
        (b"\x0a\xff", PROTOBUF, None, 400, "body: truncated"),
        (b"{}", "text/plain", None, 415, "content-type: enum"),
        (b"{}", "application/json; charset=latin-1", None, 415, "content-type: charset"),
        (b"{}", JSON, "br", 415, "content-encoding: enum"),
        (EMPTY, PROTOBUF, MARKER, 415, "content-encoding: enum"),
        (b"not gzip", JSON, "gzip", 400, "body: gzip"),
        (gzip.compress(b" " * (20 * 1024 * 1024)), PROTOBUF, "gzip", 413, "body: max_bytes"),
        (b" " * (16 * 1024 * 1024 + 1), JSON, None, 413, "body: max_bytes"),
        (b" " * (16 * 1024 * 1024 + 1), PROTOBUF, None, 413, "body: max_bytes"),
    ],
    ids=["json", "protobuf", "type", "charset", "encoding", "marker", "gzip", "bomb", "large", "large-pb"],
)
def test_a_request_that_cannot_be_read_is_refused_by_field_and_rule(
    client: Client,
    world: World,
    body: bytes,
    content_type: str,
    encoding: str | None,
    status: int,
    message: str,
) -> None:
    headers = {} if encoding is None else {"Content-Encoding": encoding}
    answer = send(client, world, body, content_type, **headers)
    assert answer.status_code == status
    assert said(answer, content_type) == (3, message)
    assert not Run.objects.exists()


def test_it_answers_a_partial_success_where_some_spans_are_refused(client: Client, world: World) -> None:
    (path,) = [each for each in DATA.iterdir() if each.name == "manual_json_plain_01_v1_traces.json"]
    body = json.loads(path.read_bytes())
    body["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = f"{MARKER}"
    answer = send(client, world, json.dumps(body).encode(), "application/json")
    assert answer.status_code == 200
    told = answer.json()["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert MARKER not in told["errorMessage"]


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_nobody_sends_without_a_token_that_may_ingest(
    client: Client, world: World, content_type: str
) -> None:
    _, reads = issue_token(workspace=world.workspace, name="reader", scopes=["read", "redeem", "outcome"])
    bare = client.post(URL, EMPTY, content_type=content_type)
    for answer in (bare, *(send(client, world, EMPTY, content_type, token) for token in ("wrong", reads))):
        assert (answer.status_code, said(answer, content_type)) == (401, (16, "token"))
        assert answer.headers["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_another_method_is_told_which_one_is_taken(client: Client, content_type: str) -> None:
    answer = client.put(URL, EMPTY, content_type=content_type)
    assert (answer.status_code, said(answer, content_type)) == (405, (12, "method"))
    assert answer.headers["Allow"] == "POST"


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
@pytest.mark.parametrize(
    ("error", "status", "told", "wait"),
    [
        (OperationalError(MARKER), 503, (14, "unavailable"), "5"),
        (InterfaceError(MARKER), 503, (14, "unavailable"), "5"),
        (Refused("not_published", "workflow"), 409, (9, "workflow: not_published"), None),
        (RuntimeError(MARKER), 500, (13, "internal"), None),
    ],
    ids=["busy", "away", "refused", "fault"],
)
def test_what_fails_on_our_side_is_a_status_too_and_says_when_to_ask_again(
    client: Client,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    content_type: str,
    error: Exception,
    status: int,
    told: tuple[int, str],
    wait: str | None,
) -> None:
    def fails(**_: Any) -> None:
        raise error

    monkeypatch.setattr("debugger.api.traces.import_live", fails)
    answer = send(client, world, b"{}" if content_type == JSON else EMPTY, content_type)
    assert (answer.status_code, said(answer, content_type)) == (status, told)
    assert answer.headers.get("Retry-After") == wait
    assert MARKER not in caplog.text


def test_without_the_importer_the_status_names_what_is_missing(
    client: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(port: str, name: str) -> None:
        raise PluginMissing(port, name)

    monkeypatch.setattr("debugger.api.traces.find", missing)
    answer = send(client, world, EMPTY, PROTOBUF)
    assert (answer.status_code, said(answer, PROTOBUF)) == (501, (12, "plugin_missing:importers"))


@pytest.mark.parametrize("length", [0, 1, 127, 128, 300, 20_000])
def test_a_status_on_the_wire_is_what_the_protocols_own_library_reads(length: int) -> None:
    for code in (3, 16, 300):
        read = Status.FromString(as_protobuf(code, "ä" * length))
        assert (read.code, read.message, list(read.details)) == (code, "ä" * length, [])
