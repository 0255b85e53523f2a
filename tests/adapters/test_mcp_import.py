"""Saved tool lists of MCP servers: one run, a checkpoint a list, what drifted, each tool's effect class."""

import json
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from branches.evidence.drift import parts_in
from branches.evidence.kinds.forms import Declared
from branches.evidence.names import cover_name
from branches.models import Receipt
from branches.ports import Moment, SourceFile, SourceRun, Target
from branches.queries.secrets import workspace_key
from debugger.adapters.probes.mcp_tools import McpToolsProbe
from debugger.adapters.runtimes.mcp import McpImporter
from debugger.adapters.runtimes.mcp_classes import HINTS, class_of, class_of_digest
from tests.adapters.places import KEY
from tests.adapters.source_runs import LATER, a_file, bodies, check, everything, read
from tests.builders import World, failed_run

DATA = Path(__file__).with_name("data")
IMPORTER = McpImporter()
MARKER = "CONTENT-MARKER-7f3a"
FORMS = ("mcp", "mcp_probe")
BASE = json.loads((DATA / "mcp" / "base.json").read_bytes())


def file_of(name: str, form: str = "mcp") -> SourceFile:
    return SourceFile(f"{form} {name}", (DATA / form / f"{name}.json").read_bytes())


def the_run(*files: SourceFile) -> SourceRun:
    found = read(IMPORTER, *files)
    assert found.refused == ()
    (run,) = found.runs
    check(run)
    return run


def fingerprints(run: SourceRun) -> list[str]:
    return [each["state"]["tool_registry"]["fingerprint"] for each in bodies(run, "checkpoint")]


def covered(tool: str) -> str:
    return cover_name(KEY, Declared.TOOL, tool)


@pytest.mark.parametrize("form", FORMS)
def test_another_order_is_no_drift_and_every_other_difference_is(form: str) -> None:
    names = ("base", "reorder", "schema", "added", "base")
    run = the_run(*(file_of(name, form) for name in names))
    base, reorder, schema, added, again = fingerprints(run)
    assert base == reorder == again
    assert len({base, schema, added}) == 3
    parents = [each["parent_checkpoint"] for each in bodies(run, "checkpoint")]
    assert parents == [None, *(each["checkpoint"] for each in bodies(run, "checkpoint")[:-1])]


@pytest.mark.parametrize("form", FORMS)
def test_it_says_what_drifted_since_the_list_before(form: str) -> None:
    run = the_run(*(file_of(name, form) for name in ("base", "reorder", "schema", "added")))
    drift = [{each["part"]: each["change"] for each in entry["drift"]} for entry in run.registry]
    assert drift[:2] == [{}, {}]
    assert drift[2] == {"schemas": "changed", covered("refund"): "changed"}
    assert drift[3][covered("wipe")] == "added"
    assert drift[3][covered("refund")] == "changed"
    assert covered("search") not in drift[3]


def test_both_forms_of_a_list_are_one_when_they_come_together() -> None:
    for name in ("base", "schema", "added"):
        assert len(set(fingerprints(the_run(file_of(name), file_of(name, "mcp_probe"))))) == 1


def test_a_whole_list_has_the_fingerprint_and_parts_that_the_probe_measures() -> None:
    target = Target("tools", {"file": str(DATA / "mcp" / "base.json")}, KEY)
    moment = Moment(None, None, datetime.fromisoformat(LATER))
    measured = McpToolsProbe().measure(target, moment)
    state = bodies(the_run(file_of("base")), "checkpoint")[0]["state"]["tool_registry"]
    assert state["fingerprint"] == measured.fingerprint
    assert parts_in(state["facts"]) == measured.parts


def test_an_answer_and_its_envelope_are_the_list() -> None:
    bare = fingerprints(the_run(a_file("a", BASE)))
    assert bare == fingerprints(the_run(a_file("a", {"tools": BASE})))
    assert bare == fingerprints(the_run(a_file("a", {"jsonrpc": "2.0", "id": 1, "result": {"tools": BASE}})))


@pytest.mark.parametrize("form", FORMS)
def test_it_names_each_tools_effect_class(form: str) -> None:
    run = the_run(file_of("added", form))
    assert run.registry[0]["effect_classes"] == {
        covered("search"): "unknown",
        covered("refund"): "irreversible",
        covered("wipe"): "unknown",
    }
    facts = bodies(run, "checkpoint")[0]["state"]["tool_registry"]["facts"]
    assert (facts["tools"], facts["unknown"], facts["irreversible"]) == (3, 2, 1)


@pytest.mark.parametrize(
    ("annotations", "word"),
    [
        (None, "unknown"),
        ({}, "unknown"),
        ({"title": "x"}, "unknown"),
        ([], "unknown"),
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": True, "destructiveHint": False}, "read"),
        ({"readOnlyHint": True, "destructiveHint": True}, "unknown"),
        ({"readOnlyHint": "yes"}, "unknown"),
        ({"readOnlyHint": 1}, "unknown"),
        ({"readOnlyHint": False}, "irreversible"),
        ({"destructiveHint": True}, "irreversible"),
        ({"destructiveHint": True, "idempotentHint": True}, "irreversible"),
        ({"idempotentHint": True}, "irreversible"),
        ({"openWorldHint": False}, "irreversible"),
        ({"destructiveHint": False}, "unknown"),
        ({"destructiveHint": False, "openWorldHint": True}, "unknown"),
        ({"destructiveHint": False, "openWorldHint": False}, "reversible"),
    ],
)
def test_what_is_left_out_has_the_specifications_default(annotations: Any, word: str) -> None:
    assert class_of(annotations) == word


hints = st.dictionaries(st.sampled_from(HINTS), st.none() | st.booleans() | st.integers() | st.text())


@given(hints)
def test_only_a_servers_plain_word_makes_a_tool_a_reader(annotations: dict[str, Any]) -> None:
    word = class_of(annotations)
    assert word in {"read", "reversible", "irreversible", "unknown"}
    assert word != "read" or annotations["readOnlyHint"] is True
    assert word != "reversible" or annotations["destructiveHint"] is False


def test_a_digest_that_is_no_set_of_hints_is_unknown() -> None:
    assert class_of_digest("sha256:" + "0" * 64) == "unknown"


def probe_with(**changed: Any) -> Any:
    return {**json.loads((DATA / "mcp_probe" / "base.json").read_bytes()), **changed}


@pytest.mark.parametrize(
    ("value", "field", "rule"),
    [
        ("x", "(whole)", "object"),
        ({}, "tools", "required"),
        ({"tools": {}}, "tools", "list"),
        ({"tools": BASE, "nextCursor": MARKER}, "nextCursor", "half_answer"),
        ({"tools": BASE, "nextCursor": 7}, "nextCursor", "string"),
        ({"tools": BASE, "resultType": MARKER}, "resultType", "half_answer"),
        ({"tools": BASE, "protocolVersion": MARKER}, "protocolVersion", "version_unknown"),
        ({"jsonrpc": "1.0", "id": 1, "result": {"tools": BASE}}, "jsonrpc", "version_unknown"),
        ({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": MARKER}}, "error", "error_answer"),
        ({"jsonrpc": "2.0", "id": 1}, "result", "required"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": BASE, "protocolVersion": "2031-01-01"}},
         "result.protocolVersion", "version_unknown"),
        ([1], "tools", "tools_malformed"),
        ([{"name": 1}], "tools", "tools_malformed"),
        ([*BASE, *BASE], "tools", "tools_ambiguous"),
        ([{"name": "a", "inputSchema": []}], "tools", "tools_malformed"),
        ([{"function": {"name": MARKER}}], "tools", "not_mcp"),
        ([{"name": "a", "description": "x" * 10_000_000}], "0.description", "max_length"),
        (probe_with(schema=MARKER), "schema", "unknown"),
        (probe_with(protocol_version="2031-01-01"), "protocol_version", "version_unknown"),
        (probe_with(protocol_version=MARKER), "protocol_version", "version_unknown"),
        (probe_with(tool_count=3), "tool_count", "differs"),
        (probe_with(registry_hash=MARKER), "registry_hash", "differs"),
        (probe_with(tools=[]), "tools", "object"),
        (probe_with(tools={MARKER: {"schema": MARKER}}), "tools.*.output_schema", "required"),
        (probe_with(tools={MARKER: dict.fromkeys(("schema", "output_schema", "description", "annotations",
                                                  "whole"), MARKER)}), "tools.*.schema", "digest"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_refused_and_the_others_are_taken(value: Any, field: str, rule: str) -> None:
    found = read(IMPORTER, a_file("a", value), file_of("base"))
    assert [(each.where, each.field, each.rule) for each in found.refused] == [("a", field, rule)]
    assert len(found.runs) == 1
    assert MARKER not in everything(found)
    assert read(IMPORTER, a_file("a", value)).runs == ()


@pytest.mark.parametrize(
    ("content", "rule"), [(b"[" * 100_000, "nesting"), (b'[{"name": 1, "name": 2}]', "duplicate_key")]
)
def test_a_file_that_is_no_document_is_refused(content: bytes, rule: str) -> None:
    assert [each.rule for each in read(IMPORTER, SourceFile("a", content)).refused] == [rule]


def test_many_tools_fit_into_a_receipt_by_their_aspects() -> None:
    many = [{**BASE[0], "name": f"tool_{number}"} for number in range(500)]
    run = the_run(a_file("a", many), a_file("b", many[:-1]))
    assert len(set(fingerprints(run))) == 2
    assert run.registry[1]["drift"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_one_wrong_value_gives_a_run_or_a_refusal_and_never_an_error(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMS))
    value = json.loads((DATA / form / "added.json").read_bytes())
    place = value
    while True:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    found = read(IMPORTER, SourceFile("a", json.dumps(value).encode("utf-8", "surrogatepass")))
    for run in found.runs:
        check(run)


@pytest.mark.django_db
def test_the_command_shows_drift_and_classes_and_stores_no_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)
    paths = [str(DATA / "mcp" / f"{name}.json") for name in ("base", "reorder", "schema", "added")]

    def imported() -> dict[str, Any]:
        call_command("import", "mcp", *paths)
        return json.loads(capsys.readouterr().out)

    first, again = imported(), imported()
    assert (first["accepted"], first["refused"], first["stops"], first["topology"]) == (5, [], [], None)
    assert (again["accepted"], again["duplicates"], again["run"]) == (0, 5, first["run"])
    assert [bool(each["drift"]) for each in first["registry"]] == [False, False, True, True]
    changed = [one["fingerprint"] != two["fingerprint"] for one, two in pairwise(first["registry"])]
    assert changed == [False, True, True]
    stored = "".join(Receipt.objects.values_list("body", flat=True)) + json.dumps(first)
    assert not any(name in stored for name in ("refund", "wipe", "Search the index"))


@pytest.mark.parametrize("kind", ["mcp", "otlp"])
def test_nothing_is_added_to_a_run_that_a_recorder_writes(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)
    run = failed_run(world)
    before = Receipt.objects.count()
    options = {"workspace": world.workspace.name, "run": run.uid}
    with pytest.raises(CommandError, match="run: foreign_writer") as refused:
        call_command("import", kind, str(DATA / "mcp" / "base.json"), **options)
    assert (refused.value.returncode, Receipt.objects.count()) == (1, before)
    # A list that was saved joins the record by the run's own recorder, whose probe reads the file.
    target = Target("tools", {"file": str(DATA / "mcp" / "base.json")}, workspace_key(world.workspace))
    found = McpToolsProbe().measure(target, Moment(None, None, datetime.fromisoformat(LATER)))
    call_command("import", "mcp", str(DATA / "mcp" / "base.json"), workspace=world.workspace.name)
    (listed,) = Receipt.objects.filter(kind="checkpoint").exclude(run=run)
    state = json.loads(listed.body)["body"]["state"]
    assert [each["fingerprint"] for each in state.values()] == [found.fingerprint]
