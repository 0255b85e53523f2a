"""OTLP over HTTP: a stock exporter's traces become runs; what cannot be taken is answered by protocol."""

import gzip
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from django.test import Client
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from requests.adapters import BaseAdapter

from branches.models import Receipt, Run
from branches.queries.audits import audits_now
from branches.queries.clock import now
from branches.queries.receipts import verify_run
from debugger.intake import MemoryShelf
from tests.builders import World

DATA = Path(__file__).resolve().parents[1] / "adapters" / "data" / "otlp"
MARKER = "CONTENT-MARKER-7f3a"
URL = "/v1/traces"


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = MemoryShelf()
    monkeypatch.setattr("debugger.intake.shelf", lambda: shelf)


def send(
    client: Client, world: World, body: bytes, content_type: str, token: str = "", **headers: str
) -> Any:
    headers = {"Authorization": f"Bearer {token or world.token}", **headers}
    return client.post(URL, body, content_type=content_type, headers=headers)


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
    ("body", "content_type", "encoding", "status"),
    [
        (b"{", "application/json", None, 400),
        (b"\x0a\xff", "application/x-protobuf", None, 400),
        (b"{}", "text/plain", None, 415),
        (b"{}", "application/json", "br", 415),
        (b"not gzip", "application/json", "gzip", 400),
        (gzip.compress(b" " * (20 * 1024 * 1024)), "application/json", "gzip", 413),
        (b" " * (16 * 1024 * 1024 + 1), "application/json", None, 413),
    ],
    ids=["json", "protobuf", "type", "encoding", "gzip", "bomb", "large"],
)
def test_a_request_that_cannot_be_read_is_refused_by_field_and_rule(
    client: Client, world: World, body: bytes, content_type: str, encoding: str | None, status: int
) -> None:
    headers = {} if encoding is None else {"Content-Encoding": encoding}
    answer = send(client, world, body, content_type, **headers)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"field", "rule"}
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


def test_nobody_sends_without_a_token_that_may_ingest(client: Client, world: World) -> None:
    assert client.post(URL, b"{}", content_type="application/json").status_code == 401
    assert send(client, world, b"{}", "application/json", token="wrong").status_code == 401
    assert client.get(URL).status_code == 405
