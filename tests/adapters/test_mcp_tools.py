"""The tools probe against a real MCP server in a process of its own, and against saved lists."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from branches.evidence import tool_classes
from branches.evidence.domains import PART
from branches.ports import StateMeasurement, Target
from debugger.adapters.probes import mcp_session
from debugger.adapters.probes.mcp_tools import McpToolsProbe
from tests.adapters.places import KEY, MARKER, MOMENT, Registry, Web, target, tool
from tests.adapters.places_pages import serve_tools
from tests.patience import PATIENCE_S, ends

SAVED = Path(__file__).with_name("data") / "mcp"


@pytest.fixture
def place(tmp_path: Path) -> Registry:
    return Registry(tmp_path)


def measured(place: Registry) -> StateMeasurement:
    return McpToolsProbe().measure(place.target(), MOMENT)


def in_file(tmp_path: Path, saved: Any) -> StateMeasurement:
    path = tmp_path / "saved.json"
    path.write_text(saved if isinstance(saved, str) else json.dumps(saved))
    return McpToolsProbe().measure(target(file=str(path)), MOMENT)


def saved(name: str) -> list[dict[str, Any]]:
    return json.loads((SAVED / f"{name}.json").read_text())


def drifted(before: StateMeasurement, after: StateMeasurement, *tools: str) -> set[str]:
    """The aspects and those of the named tools that differ."""
    names = {KEY.digest(PART, name): name for name in (*McpToolsProbe.part_names, *tools)}
    both = before.parts.keys() | after.parts.keys()
    return {names[part] for part in both if before.parts.get(part) != after.parts.get(part)}


def test_it_reads_every_page_and_counts(place: Registry) -> None:
    tools = [tool(f"tool-{number}") for number in range(7)]
    place.write(tools)
    at_once = measured(place)
    place.write(tools[::-1], page=2)
    assert measured(place) == at_once
    assert at_once.facts == {"tools": 7, "server_version": "1.0.0", "tool_classes": 0}


def test_it_keeps_the_version_beside_the_tools(place: Registry) -> None:
    first = measured(place)
    place.write([tool("search"), tool("refund")], version="2.0.0-rc.1")
    again = measured(place)
    assert again.fingerprint == first.fingerprint
    assert again.facts["server_version"] == "2.0.0-rc.1"


CHANGES: dict[str, tuple[list[dict[str, Any]], set[str]]] = {
    "a tool more": (
        [tool("search"), tool("other")],
        {"names", "schemas", "descriptions", "annotations", "other"},
    ),
    "no tool": ([], {"names", "schemas", "descriptions", "annotations", "search"}),
    "a schema": ([tool("search", inputSchema={"type": "object"})], {"schemas", "search"}),
    "an answer's schema": ([tool("search", outputSchema={"type": "object"})], {"schemas", "search"}),
    "a description": ([tool("search", description="x")], {"descriptions", "search"}),
    "a title": ([tool("search", title="x")], {"descriptions", "search"}),
    "a hint": ([tool("search", annotations={"destructiveHint": True})], {"annotations", "search"}),
    "a null deep inside": (
        [tool("search", inputSchema={"type": "object", "default": {"a": None}})],
        {"schemas", "search"},
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_names_the_parts_of(tmp_path: Path, change: str) -> None:
    tools, parts = CHANGES[change]
    before = in_file(tmp_path, [tool("search")])
    after = in_file(tmp_path, tools)
    assert after.fingerprint not in (None, before.fingerprint)
    assert drifted(before, after, "search", "other") == parts
    assert MARKER not in repr((before, after))


def test_it_finds_the_captured_variants_equal_where_they_are(tmp_path: Path) -> None:
    found = {name: in_file(tmp_path, saved(name)) for name in ("base", "reorder", "schema", "added")}
    assert found["base"] == found["reorder"]
    assert len({each.fingerprint for each in found.values()}) == 3
    assert [each.facts["tools"] for each in found.values()] == [2, 2, 2, 3]
    assert drifted(found["base"], found["schema"], "refund") == {"schemas", "refund"}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a server over HTTP with these settings, and return its address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(tools: list[dict[str, Any]], **settings: Any) -> str:
        path = tmp_path / f"http-{len(started)}.json"
        path.write_text(json.dumps({"page": 1, "version": "1.0.0", **settings, "tools": tools}))
        url, process = serve_tools(path)
        started.append(process)
        return url

    yield start
    for process in started:
        process.kill()
        process.wait()


def over_http(url: str, **options: Any) -> StateMeasurement:
    return McpToolsProbe().measure(target(**{"url": url, "allow": "loopback", **options}), MOMENT)


@pytest.mark.parametrize("as_json", [True, False])
def test_it_finds_the_same_tools_over_stdio_over_http_and_in_a_file(
    place: Registry, serve: Callable[..., str], tmp_path: Path, as_json: bool
) -> None:
    tools = [*saved("base"), tool("wide", inputSchema={"type": "object", "default": {"a": None, "b": 1.0}})]
    place.write(tools, page=1)
    stdio = measured(place)
    http = over_http(serve(tools[::-1], json=as_json))
    file = in_file(tmp_path, {"tools": tools})
    assert stdio.problem is None
    assert stdio == http
    assert (file.fingerprint, file.parts) == (stdio.fingerprint, stdio.parts)
    # Of three: the refund is irreversible, and the others say nothing of themselves.
    assert http.facts == {"tools": 3, "server_version": "1.0.0", "tool_classes": 12}


def test_it_finds_openai_functions_and_plain_ones_equal(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}}
    forms: list[dict[str, Any]] = [
        {"name": "search", "description": "Search", "inputSchema": schema},
        {"name": "search", "description": "Search", "parameters": schema, "strict": None},
        {"type": "function", "function": {"name": "search", "description": "Search", "parameters": schema}},
        {"type": "function", "name": "search", "description": "Search", "parameters": schema},
        {"name": "search", "description": "Search", "input_schema": schema, "title": None},
    ]
    found = {in_file(tmp_path, [form]).fingerprint for form in forms}
    assert len(found) == 1
    assert None not in found
    enveloped = {"jsonrpc": "2.0", "id": 3, "result": {"tools": forms[:1], "nextCursor": None}}
    assert in_file(tmp_path, enveloped).fingerprint in found
    strict = [{"type": "function", "function": {**forms[2]["function"], "strict": True}}]
    assert in_file(tmp_path, strict).fingerprint not in found


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ('{"tools": [{"name": "a"}], "nextCursor": "2"}', "half_answer"),
        ('{"tools": [', "file_form"),
        ("", "file_form"),
        ("{}", "file_form"),
        ('{"error": {"code": 1}}', "file_form"),
        ('{"tools": null}', "file_form"),
        ('"tools"', "file_form"),
        ('[{"name": "a", "name": "b"}]', "file_form"),
        ('[{"name": "a", "inputSchema": {"maximum": NaN}}]', "file_form"),
        ('[{"name": "a"}, {"name": "a"}]', "tools_ambiguous"),
        ('[{"name": ""}]', "tools_malformed"),
        ('[{"description": "a"}]', "tools_malformed"),
        ('[{"name": "a", "description": 5}]', "tools_malformed"),
        ('[{"name": "a", "inputSchema": []}]', "tools_malformed"),
        ('[{"name": "a", "inputSchema": {}, "parameters": {}}]', "tools_malformed"),
        ('["a"]', "tools_malformed"),
        ("[" * 200_000 + "]" * 200_000, "file_form"),
        ('[{"name": "a", "inputSchema": ' + '{"a":' * 200 + "1" + "}" * 201 + "]", "tools_malformed"),
        ('[{"name": "a", "description": "' + "x" * 5_000_000 + '"}]', "too_large"),
    ],
)
def test_it_reads_no_list_out_of(tmp_path: Path, content: str, problem: str) -> None:
    found = in_file(tmp_path, content)
    assert (found.fingerprint, found.reachable, found.problem, found.parts) == (None, False, problem, {})


def test_it_takes_no_pipe_for_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    found = McpToolsProbe().measure(target(file=str(tmp_path / "pipe")), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "file_unreadable")


def test_it_says_what_each_tools_annotations_speak_for(tmp_path: Path) -> None:
    hints = {"a": {"readOnlyHint": True}, "b": {}, "names": {"readOnlyHint": True}}
    found = in_file(tmp_path, [tool(name, annotations=said) for name, said in hints.items()])
    parts = {KEY.digest(PART, name): name for name in ("a", "b")}
    said = tool_classes.unpacked(found.facts[tool_classes.FACT], parts)
    # A tool that is called like an aspect is no part of its own.
    assert {parts[part]: word for part, word in said.items()} == {"a": "read", "b": "unknown"}
    many = in_file(tmp_path, [tool(f"tool-{number}") for number in range(21)])
    assert tool_classes.FACT not in many.facts


def test_it_gives_many_tools_no_parts_of_their_own(tmp_path: Path) -> None:
    twenty = in_file(tmp_path, [tool(f"tool-{number}") for number in range(20)])
    assert len(twenty.parts) == 24
    more = in_file(tmp_path, [tool(f"tool-{number}") for number in range(21)])
    assert set(more.parts) == {KEY.digest(PART, name) for name in McpToolsProbe.part_names}


def test_it_lets_no_tool_pass_for_an_aspect(tmp_path: Path) -> None:
    before = in_file(tmp_path, [tool("names"), tool("search")])
    after = in_file(tmp_path, [tool("names", description="other"), tool("search")])
    assert drifted(before, after, "search") == {"descriptions"}


SETTINGS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a server that never answers": ({"hang": True}, {"timeout"}),
    "pages without end": ({"endless": True}, {"pages_without_end", "tools_ambiguous"}),
    "a page that leads to itself": ({"cursor": "0"}, {"pages_without_end"}),
    "a second page that breaks": ({"breaks_at": 1}, {"server_failed"}),
    "a name twice": ({"tools": [tool("a"), tool("a")], "page": 5}, {"tools_ambiguous"}),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("way", ["stdio", "http"])
def test_it_takes_no_half_answer_for_a_list_from(
    place: Registry, serve: Callable[..., str], way: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("TIMEOUT_S", "READ_S"):
        monkeypatch.setattr(mcp_session, limit, 3.0 if "never" in setting else PATIENCE_S)
    monkeypatch.setattr(mcp_session, "MOST_PAGES", 5)
    settings, problems = SETTINGS[setting]
    settings = {"tools": [tool("a"), tool("b")], "page": 1, "version": "1", **settings}
    place.settings.write_text(json.dumps(settings))
    ask = partial(measured, place)
    if way == "http":
        ask = partial(over_http, serve(settings.pop("tools"), **settings))
    with ends():
        found = ask()
    assert (found.fingerprint, found.reachable, found.facts) == (None, False, {})
    assert found.problem in problems


def test_it_lets_nothing_a_server_says_into_a_log(
    place: Registry, serve: Callable[..., str], capfd: Any, caplog: Any
) -> None:
    caplog.set_level("DEBUG")
    place.settings.write_text('{"tools": [], "page": 1, "version": "1", "noise": true}')
    measured(place)
    url = serve([tool("a")], breaks_at=0)
    over_http(url + f"?{MARKER}")
    out, err = capfd.readouterr()
    assert MARKER not in out + err + caplog.text
    assert "127.0.0.1" not in out + err + caplog.text


def test_it_takes_a_missing_program_for_no_empty_registry() -> None:
    found = McpToolsProbe().measure(target(command=["/no/such/program"]), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "server_failed")


def test_it_takes_a_program_that_speaks_otherwise_for_no_empty_registry() -> None:
    found = McpToolsProbe().measure(target(command=[sys.executable, "-c", "print('{}')"]), MOMENT)
    assert (found.fingerprint, found.reachable) == (None, False)


def test_it_takes_a_server_that_is_gone_for_no_empty_registry(serve: Callable[..., str]) -> None:
    url = serve([tool("a")])
    assert over_http(url).problem is None
    found = over_http("http://127.0.0.1:9/mcp")
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "no_connection")
    assert over_http(url.replace("/mcp", "/other")).problem == "server_failed"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"command": ["x"], "file": "y"},
        {"url": "http://a.example/", "file": "y"},
        {"command": []},
        {"command": "x"},
        {"file": 5},
        {"url": "http://a.example/", "allow": "all"},
        {"url": "http://a.example/", "most_bytes": 10_000_000},
        {"url": "http://a.example/", "most_bytes": True},
        {"command": ["x"], "pass_env": "HOME"},
    ],
)
def test_it_refuses_options_that_name_no_one_place(options: dict[str, Any]) -> None:
    found = McpToolsProbe().measure(Target("here", options, KEY), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "target_unfit")


def test_it_passes_only_those_variables_on_that_are_named(
    place: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", "secret")
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    sign = tmp_path / "environment"
    code = f"import os, pathlib; pathlib.Path({str(sign)!r}).write_text(' '.join(sorted(os.environ)))"
    command = [sys.executable, "-c", code]
    McpToolsProbe().measure(target(command=command, pass_env=["TOOLS_TOKEN"], env={"MODE": "x"}), MOMENT)
    seen = sign.read_text().split()
    assert {"TOOLS_TOKEN", "MODE"} <= set(seen)
    assert "OTHER_TOKEN" not in seen
    found = McpToolsProbe().measure(target(command=command, pass_env=["NOT_SET"]), MOMENT)
    assert (found.fingerprint, found.problem) == (None, "secret_missing")


@pytest.mark.parametrize(
    ("url", "allow", "problem"),
    [
        ("http://127.0.0.1:9/mcp", None, "address_refused"),
        ("http://169.254.169.254/mcp", ["169.254.0.0/16"], "address_refused"),
        ("http://[::ffff:127.0.0.1]:9/mcp", "loopback", "address_refused"),
        ("http://user@127.0.0.1/mcp", "loopback", "url_form"),
        ("http://2130706433/mcp", "loopback", "url_form"),
    ],
)
def test_it_connects_to_nothing_that_is_not_allowed(url: str, allow: Any, problem: str) -> None:
    assert over_http(url, allow=allow).problem == problem


@pytest.fixture
def web() -> Iterator[Web]:
    """A server of no MCP that answers every request as `said` says."""
    made = Web(lambda _: made.said)
    made.said = (200, [], b"")
    made.server.RequestHandlerClass.do_POST = made.server.RequestHandlerClass.do_GET
    yield made
    made.close()


ODD: dict[str, tuple[tuple[int, list[tuple[str, str]], bytes], str]] = {
    "a redirect to itself": ((307, [("Location", "/other")], b""), "redirected"),
    "a redirect elsewhere": ((308, [("Location", "http://127.0.0.1:9/")], b""), "redirected"),
    "a packed answer": ((200, [("Content-Encoding", "gzip")], b"x"), "encoded"),
    "an answer that is too long": ((200, [("Content-Type", "application/json")], b"x" * 70_000), "too_large"),
    "an answer cut short": (
        (200, [("Content-Length", "900"), ("Content-Type", "application/json")], b"{"),
        "",
    ),
    "no JSON": ((200, [("Content-Type", "application/json")], b"<html>"), "server_failed"),
    "an error": ((500, [], b"CONTENT-MARKER-7f3a"), "server_failed"),
    "no permission": ((401, [], b""), "access_refused"),
}


@pytest.mark.parametrize("answer", ODD)
def test_it_knows_nothing_from(web: Web, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    said, problem = ODD[answer]
    web.said = said
    found = over_http(web.url + "/mcp")
    assert (found.fingerprint, found.reachable) == (None, False)
    assert found.problem == problem or (not problem and found.problem in {"cut_short", "server_failed"})
    assert set(web.paths) == {"/mcp"}
    assert MARKER not in repr(found)


def test_it_sends_a_secret_by_its_reference_and_only_where_it_may(
    serve: Callable[..., str], web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLS_TOKEN", f"token-{MARKER}")
    over_http(web.url + "/mcp", auth_env="TOOLS_TOKEN")
    sent = {name.lower(): value for name, value in web.seen[0].items()}
    assert sent["authorization"] == f"Bearer token-{MARKER}"
    assert over_http(web.url, auth_env="NOT_SET").problem == "secret_missing"
    clear = over_http(web.url, auth_env="TOOLS_TOKEN", allow=["127.0.0.0/8"])
    assert (clear.fingerprint, clear.problem) == (None, "secret_in_clear")
