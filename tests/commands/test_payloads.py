"""Every captured payload through the real command: its states, and its content in nothing that is made."""

import gzip
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import Client

from branches.commands.admit import grant_role, issue_token, make_workspace
from branches.models import Person, Role
from debugger import contracts
from tests.leaks import forms, opened
from tests.web.cast import HTMX, signed_in

MARKER: Final = "CONTENT-MARKER-7f3a"
FORMS: Final = forms(MARKER)
DATA: Final = Path(__file__).resolve().parents[1] / "adapters" / "data"
KINDS: Final = {
    "ai_sdk_7": "ai_sdk",
    "autogen": "autogen",
    "mcp": "mcp",
    "mcp_probe": "mcp",
    "openai_agents": "openai_agents",
    "otlp": "otlp",
}
EXPECTED: Final[dict[str, list[dict[str, Any]]]] = json.loads(
    Path(__file__).with_name("payload_states.json").read_text()
)
# A table of what conditions returned: nothing of it ran.
NO_RUN: Final = "ai_sdk_7/PREDICATES.json"
PATTERNS: Final = "topology_patterns.json"
# Our templates name three of the patterns more shortly.
SHORTER: Final = {
    "semantic_router_llm_fallback": "semantic_router",
    "mcp_integration_layer": "mcp_layer",
    "skill_chaining_planner": "skill_chaining",
}
PIECES: Final = ("/window/", "/map/")
PAGES: Final = ("", "window/", "map/", "audits/", "receipts/", "receipts.ndjson", "compare/", "fork/")
OF_ALL: Final = ("/", "/outcomes/", "/receipts/", "/approvals/", "/import/", "/branches/")
API: Final = ("", "/receipts", "/checkpoints", "/audits", "/recoveries")
PAYLOADS: Final = sorted(
    f"{folder}/{path.name}"
    for folder in KINDS
    for path in (DATA / folder).iterdir()
    if not path.name.endswith(".headers.json")
)
pytestmark = pytest.mark.django_db


@pytest.fixture
def desk(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Ada, an engineer of a workspace with nothing in it, and a folder of its own for every file."""
    monkeypatch.setattr("debugger.management.commands.import.prepare", lambda: None)
    ada = Person.objects.create_user("ada", password="correct horse battery")
    grant_role(person=ada, workspace=make_workspace(name="main"), role=Role.ENGINEER)
    return signed_in(ada)


def expected_of(name: str) -> list[dict[str, Any]]:
    """Return a payload's runs: what an AI SDK file says of itself, or what our own table says."""
    if name in EXPECTED or name == NO_RUN:
        return EXPECTED.get(name, [])
    return [{"stops": [json.loads((DATA / name).read_bytes())["expected_stop_state"]], "handoffs": []}]


def imported(capfd: pytest.CaptureFixture[str], name: str) -> tuple[list[dict[str, Any]], str]:
    """Import one payload; return what the command printed, parsed and with what it said besides."""
    arguments = ("import", KINDS[name.partition("/")[0]], str(DATA / name))
    if name == NO_RUN or any("refused" in run for run in expected_of(name)):
        with pytest.raises(SystemExit):
            call_command(*arguments)
    else:
        call_command(*arguments)
    said = capfd.readouterr()
    return [json.loads(line) for line in said.out.splitlines()], said.out + said.err


def words_of(name: str) -> set[bytes]:
    """Return what may be nowhere: the marker in every form, and each phrase of a payload in JSON."""
    content = (DATA / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    try:
        return FORMS | {text.encode() for text in phrases(json.loads(content))}
    except ValueError:
        return FORMS


def phrases(value: Any) -> Iterator[str]:
    """Yield the texts of several words: no name and no enum word has a space."""
    if isinstance(value, dict):
        for each in value.values():
            yield from phrases(each)
    elif isinstance(value, list):
        for each in value:
            yield from phrases(each)
    elif isinstance(value, str) and len(value) > 8 and " " in value:
        yield value


def shown(client: Client, token: str, run: str) -> Iterator[tuple[str, bytes]]:
    """Yield every page and every answer about a run, as somebody gets them who may see it."""
    headers = {"Authorization": f"Bearer {token}"}
    addresses = [
        *(f"/runs/{run}/{page}" for page in PAGES),
        *OF_ALL,
        *(f"/api/v1/runs/{run}{page}" for page in API),
        "/api/v1/runs",
        "/api/v1/audit",
    ]
    for address in addresses:
        of_api = address.startswith("/api/")
        answer = client.get(
            address, headers=headers if of_api else HTMX if address.endswith(PIECES) else None
        )
        assert answer.status_code == 200, address
        yield address, answer.getvalue() if answer.streaming else answer.content


def stored() -> Iterator[tuple[str, bytes]]:
    """Yield each row of each table with all its columns, and what the sessions hold."""
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            for row in cursor.fetchall():
                yield table, b" ".join(map(_bytes, row))
                if table == "django_session":
                    yield table, opened(row[1])


def _bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, (bytes, memoryview)) else str(value).encode()


def files() -> Iterator[tuple[str, bytes]]:
    """Yield what lies in the broker's folder and beside it."""
    for path in Path(settings.BRANCHGATE_VAR).rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()


def exported(capfd: pytest.CaptureFixture[str], run: str) -> bytes:
    call_command("export_receipts", run)
    return capfd.readouterr().out.encode()


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_gives_its_states_and_its_content_is_nowhere(
    name: str, desk: Client, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said, printed = imported(capfd, name)
    if name == NO_RUN:
        assert [(each["run"], each["refused"][0]["rule"]) for each in said] == [(None, "not_a_run")]
        return
    found = [
        {kind: sorted(each["state"] for each in one[kind]) for kind in ("stops", "handoffs")} for one in said
    ]
    wanted = [{kind: one[kind] for kind in ("stops", "handoffs")} for one in expected_of(name)]
    assert sorted(found, key=str) == sorted(wanted, key=str)
    refused = sorted(each["rule"] for one in said for each in one["refused"])
    assert refused == sorted(rule for run in expected_of(name) for rule in run.get("refused", []))
    assert all((one["topology"], one["accepted"] > 1) == (None, True) for one in said)
    _, token = issue_token(workspace=make_workspace(name="main"), name="reader", scopes=["read"])
    everything = [("printed", printed.encode()), *stored(), *files()]
    for one in said:
        pages = dict(shown(desk, token, one["run"]))
        judged = json.loads(pages[f"/api/v1/runs/{one['run']}/audits"])
        assert {kind: judged[kind] for kind in ("stops", "handoffs", "topology")} == {
            kind: one[kind] for kind in ("stops", "handoffs", "topology")
        }
        everything += [*pages.items(), ("exported", exported(capfd, one["run"]))]
    said_more = capfd.readouterr()
    everything += [("log", caplog.text.encode()), ("output", (said_more.out + said_more.err).encode())]
    assert {place for place, text in everything if any(word in text for word in words_of(name))} == set()


def test_the_search_would_find_what_it_looks_for(desk: Client) -> None:
    Person.objects.create_user("rosa", password="x", first_name=f"a {MARKER}")
    assert {table for table, row in stored() if any(word in row for word in FORMS)} == {"branches_person"}
    words = [name for name in PAYLOADS if len(words_of(name)) > len(FORMS)]
    assert {name.partition("/")[0] for name in words} >= {
        "ai_sdk_7",
        "autogen",
        "openai_agents",
        "mcp",
        "otlp",
    }


def test_every_payload_that_was_captured_is_here_and_expected() -> None:
    held = {folder: sum(name.startswith(f"{folder}/") for name in PAYLOADS) for folder in KINDS}
    assert held == {
        "ai_sdk_7": 13, "autogen": 19, "mcp": 4, "mcp_probe": 4, "openai_agents": 14, "otlp": 6,
    }  # fmt: skip
    assert set(EXPECTED) == {name for name in PAYLOADS if not name.startswith("ai_sdk_7/")}
    assert all(run["because"] for runs in EXPECTED.values() for run in runs)
    assert all((DATA / f"{name}.headers.json").exists() for name in PAYLOADS if name.startswith("otlp/"))


def test_each_pattern_that_was_sketched_has_its_template() -> None:
    sketched = json.loads((DATA / PATTERNS).read_bytes())["patterns"]
    assert {SHORTER.get(name, name) for name in sketched} == set(contracts.names())
    for name in sketched:
        template = contracts.template(SHORTER.get(name, name))["contract"]
        assert min(len(template[part]) for part in ("agents", "edges", "phases")) > 0
