"""A running server takes what Node programs send it: evidence of loops, and traces of a stock exporter."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import worlds
from tests.adapters.places import MARKER
from tests.js.served import Served, served
from tests.js.toolchain import MODULE, VERSIONS, Toolchain
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def server(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def posted(request: Any, toolchain: Toolchain, server: Served, tmp_path_factory: Any) -> Any:
    """What a program of one version was told by the server, and where its evidence lies."""
    folder = tmp_path_factory.mktemp(f"posted-{request.param}")
    env = {"BRANCHGATE_TOKEN": server.token}
    arguments = (f"ai-{request.param}", str(MODULE), server.url, str(folder))
    done = toolchain.run(request.param, "posting.mjs", *arguments, env=env)
    assert MARKER not in done.stdout + done.stderr
    assert server.token not in done.stdout + done.stderr
    return {**json.loads(done.stdout.splitlines()[-1]), "folder": folder}


def test_a_loop_that_ended_is_a_run_with_its_stop_judged(posted: Any, server: Served) -> None:
    finished, waiting = posted["taken"]
    assert finished["stops"] == [{"state": "false_complete", "reasons": ["no_receipt"]}]
    assert waiting["stops"] == [{"state": "waiting", "reasons": []}]
    for each in (finished, waiting):
        assert (each["accepted"], each["duplicates"], each["refused"]) == (4, 0, [])
    kinds = [each["kind"] for each in server.receipts(finished["run"])]
    assert kinds == ["run_started", "effect_intended", "effect_answered", "stopped"]
    stopped = server.receipts(waiting["run"])[-1]["body"]
    assert stopped["policy"]["version"] == "p7"
    assert stopped["approval"]["deadline"] == "2026-12-01T09:00:00.000Z"
    for field in ("owner", "resume_token"):
        assert stopped["approval"][field].startswith("hmac-sha256:")


def test_content_is_nowhere_in_the_record(posted: Any, server: Served) -> None:
    for each in posted["taken"]:
        assert MARKER not in server.get(f"runs/{each['run']}/receipts").text


def test_the_same_again_is_the_same_run_and_counts_as_duplicates(posted: Any) -> None:
    first = {each["run"]: each["accepted"] for each in posted["taken"]}
    again = {each["run"]: each["duplicates"] for each in posted["again"]}
    assert again == first
    assert [each["accepted"] for each in posted["again"]] == [0, 0]


def test_it_sends_again_what_a_server_that_was_away_did_not_take(posted: Any) -> None:
    # It came back at the third try: one request body, three times.
    assert posted["comesBack"] == {"taken": [1], "problems": [], "requests": 3, "alike": 1}
    # Three tries are enough for now, and what was not taken is kept for the next time.
    unreachable = ["unreachable", "", 503]
    assert posted["staysAway"] == {
        "taken": [0, 1],
        "problems": [unreachable, unreachable],
        "requests": 7,
        "alike": 1,
    }


def test_what_a_server_refuses_is_told_by_field_and_rule_and_not_sent_again(posted: Any) -> None:
    assert posted["refuses"] == {
        "taken": [0],
        "problems": [["list", "steps", 422]],
        "requests": 1,
        "alike": 1,
    }


# --- the door


def post(server: Served, body: Any, **headers: str) -> httpx.Response:
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {server.token}", **headers}
    return httpx.post(f"{server.url}/api/v1/sources/ai_sdk", content=body, headers=sent, timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("body", "headers", "status", "field", "rule"),
    [
        (b"{", {}, 422, "(whole)", "json"),
        (b"[]", {}, 422, "(whole)", "object"),
        (b'{"schema": "stop-evidence/2", "steps": []}', {}, 422, "schema", "unknown"),
        (b" " * (4 * 1024 * 1024 + 1), {}, 413, "", "max_bytes"),
        (b"{}", {"Content-Type": "text/plain"}, 415, "content-type", "content_type"),
        (b"{}", {"Content-Encoding": "gzip"}, 415, "content-encoding", "content_encoding"),
        (b"{}", {"Authorization": "Bearer wrong"}, 401, "", "token"),
    ],
    ids=["json", "object", "schema", "large", "type", "encoding", "token"],
)
def test_a_body_that_cannot_be_taken_is_refused_by_field_and_rule(
    server: Served, body: bytes, headers: dict[str, str], status: int, field: str, rule: str
) -> None:
    answer = post(server, body, **headers)
    assert answer.status_code == status
    assert answer.json()["error"] == {"field": field, "rule": rule}


def test_a_field_that_does_not_fit_is_named_and_never_repeated(posted: Any, server: Served) -> None:
    path = next(iter(posted["folder"].iterdir()))
    loop = {**json.loads(path.read_bytes()), "policy_version": f"p {MARKER}"}
    answer = post(server, json.dumps(loop))
    assert answer.json()["error"] == {"field": "policy_version", "rule": "version"}
    late = {**loop, "policy_version": None, "ended_at": MARKER}
    assert post(server, json.dumps(late)).json()["error"] == {"field": "ended_at", "rule": "timestamp"}


def test_a_body_in_chunks_is_read_to_its_end_and_within_the_same_limits(posted: Any, server: Served) -> None:
    loop = next(iter(posted["folder"].iterdir())).read_bytes()
    answer = post(server, iter([loop[:100], loop[100:]]))
    assert (answer.status_code, answer.json()["accepted"]) == (200, 0)
    assert answer.json()["duplicates"] > 0
    large = post(server, iter([b" " * (1024 * 1024)] * 5))
    assert (large.status_code, large.json()["error"]["rule"]) == (413, "max_bytes")


def test_no_other_source_is_posted_there(server: Served) -> None:
    headers = {"Authorization": f"Bearer {server.token}"}
    answer = httpx.post(
        f"{server.url}/api/v1/sources/otlp", content=b"{}", headers=headers, timeout=PATIENCE_S
    )
    assert answer.status_code == 404


# --- OpenTelemetry


def test_nodes_stock_exporter_needs_an_address_and_a_token(toolchain: Toolchain, server: Served) -> None:
    before = server.runs()
    for compression in ("none", "gzip"):
        env = {
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{server.url}/v1/traces",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer {server.token}",
            "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": compression,
        }
        toolchain.run("7", "traces.mjs", env=env)
    runs = server.runs() - before
    assert len(runs) == 2
    for run in runs:
        kinds = [each["kind"] for each in server.receipts(run)]
        assert kinds.count("run_started") == 1
        assert kinds.count("effect_intended") == 1
        assert "stopped" in kinds
        assert MARKER not in server.get(f"runs/{run}/receipts").text


# --- the page that says how to connect


@pytest.mark.parametrize("major", sorted(VERSIONS))
def test_the_example_of_the_page_runs_as_it_is_written(
    toolchain: Toolchain, server: Served, tmp_path: Path, major: str
) -> None:
    page = (MODULE.parents[3] / "docs" / "connect-ai-sdk.md").read_text()
    program = page.split("```js\n")[1].split("```")[0]
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "ai").symlink_to(toolchain.modules / f"ai-{major}")
    (modules / "branchgate-ai-sdk").symlink_to(MODULE.parent)
    (tmp_path / "refunds.mjs").write_text(program.replace("http://127.0.0.1:8000", server.url))
    env = {"BRANCHGATE_TOKEN": server.token}
    done = toolchain.run(major, "refunds.mjs", env=env, cwd=tmp_path)
    assert "bounded_stop" in done.stdout
    assert "waiting" in done.stdout


def test_the_traced_program_of_the_page_is_a_run_of_its_workflow(
    toolchain: Toolchain, server: Served, tmp_path: Path
) -> None:
    page = (MODULE.parents[3] / "docs" / "connect-opentelemetry.md").read_text()
    (tmp_path / "workflow.json").write_text(page.split("```json\n")[1].split("```")[0])
    env = {name: value for name, value in server.env.items() if name != "DJANGO_SETTINGS_MODULE"}
    published = worlds.manage("publish_workflow", str(tmp_path / "workflow.json"), env=env)
    assert published.returncode == 0, published.stderr[-2000:]
    (tmp_path / "node_modules").symlink_to(toolchain.modules)
    (tmp_path / "traced.mjs").write_text(page.split("```js\n")[1].split("```")[0])
    env = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{server.url}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer {server.token}",
        "OTEL_RESOURCE_ATTRIBUTES": "branchgate.workflow=support",
    }
    before = server.runs()
    toolchain.run("7", "traced.mjs", env=env, cwd=tmp_path)
    (run,) = server.runs() - before
    (intended,) = [each["body"] for each in server.receipts(run) if each["kind"] == "effect_intended"]
    assert (intended["tool"], intended["effect_class"]) == ("look_up", "read")
