"""The pages about connecting agents are tried as written, on the real server."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from branches.models import Receipt, Run
from branches.queries.registry_drift import registry_drift
from debugger.demo.world import lay_out
from debugger.recorder import Recorder
from tests.recorder.pages import DOCS, blocks
from tests.recorder.site import ALL, Site, served

LANGGRAPH, MCP, TRACES = "connect-langgraph.md", "connect-mcp.md", "connect-opentelemetry.md"


@pytest.fixture
def site(db: None, tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as site:
        yield site


def tried(site: Site, *arguments: str, **told: str) -> list[str]:
    """Run a program of a page in the folder of the site, and return the lines that it printed."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=site.folder,
        env={**os.environ, "BRANCHGATE_SERVER": site.url, "PYTHONPATH": str(DOCS.parent), **told},
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def begun(site: Site, page: str, *programs: str) -> dict[str, Any]:
    """Lay out a page's files beside each other, publish its workflow, and give it its token."""
    declared: dict[str, Any] = json.loads(blocks(page, "json")[0])
    site.publish(declared)
    (site.folder / "token").write_text(site.options("recorder", declared, *ALL)["token"] + "\n")
    for name, text in zip(programs, blocks(page, "python"), strict=True):
        (site.folder / name).write_text(text)
    return declared


def events(site: Site, run: str) -> list[str]:
    return [json.loads(each.body)["body"]["event"] for each in site.handoffs(run)]


def test_the_graph_of_the_page_is_recorded_whole_and_its_edge_is_a_hand_over(site: Site) -> None:
    declared = begun(site, LANGGRAPH, "team.py", "handing.py", "verify.py")
    (site.folder / "recorder-targets.json").write_text(blocks(LANGGRAPH, "json")[1])
    (site.folder / "verifier-token").write_text(site.options("verifier", declared, *ALL)["token"])
    run = tried(site, "team.py")[-1].split()[0]
    assert events(site, run) == ["delegated", "accepted", "completed"]
    kinds = [each.kind for each in Receipt.objects.filter(run__uid=run).order_by("seq")]
    assert kinds[0] == "run_started"
    assert kinds.count("effect_answered") == 2
    checkpoint = json.loads(Receipt.objects.filter(run__uid=run, kind="checkpoint").latest("seq").body)
    assert checkpoint["body"]["state"]["agent_memory"]["fingerprint"] is not None
    tried(site, "handing.py", run, "announce")
    operation = site.handoffs(run)[-1].subject or ""
    assert site.state(run, operation) == "orphaned"
    site.decide(run, operation)
    assert tried(site, "handing.py", run, "carry_out") == ["attempt 1 of 2"]
    assert site.worked(run, operation) == [True]
    assert site.state(run, operation) == "false_success"
    tried(site, "verify.py", run)
    newest = site.handoffs(run)[-1]
    assert events(site, run)[-1] == "outcome_failed"
    assert site.state(run, operation) == "failed_outcome"
    assert newest.writer != Run.objects.get(uid=run).recorder.uid


def test_the_registry_of_the_page_is_taken_at_every_checkpoint_and_drifts(site: Site) -> None:
    declared = begun(site, LANGGRAPH, "team.py", "handing.py", "verify.py")
    members = json.loads(blocks(MCP, "json")[0])
    site.publish({**declared, **members, "version": "1.1.0"})
    team = site.folder / "team.py"
    team.write_text(team.read_text().replace('version="1.0.0"', 'version="1.1.0"'))
    tools = site.folder / "tools_server.py"
    tools.write_text(blocks(MCP, "python")[0])
    (targets,) = re.findall(
        r"cat > recorder-targets.json <<END\n(.*?)END", (DOCS / MCP).read_text(), re.DOTALL
    )
    here = targets.replace("$PWD/venv/bin/python", sys.executable).replace("$PWD", str(site.folder))
    (site.folder / "recorder-targets.json").write_text(here)
    run = tried(site, "team.py")[-1].split()[0]
    found = registry_drift(Run.objects.get(uid=run))
    assert found is not None
    assert found.changes == ()
    assert {each.said for each in found.classes} == {"read", "irreversible"}
    tools.write_text(tools.read_text().replace("Search the archive.", "Search everything."))
    again = tried(site, "team.py")[-1].split()[0]
    states = [newest(uid)["state"]["tool_registry"]["fingerprint"] for uid in (run, again)]
    assert None not in states
    assert states[0] != states[1]


def newest(run: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(
        Receipt.objects.filter(run__uid=run, kind="checkpoint").latest("seq").body
    )["body"]
    return body


def test_the_traced_program_of_the_page_is_a_run_of_its_workflow(site: Site) -> None:
    declared = json.loads(blocks(TRACES, "json")[0])
    site.publish(declared)
    (site.folder / "traced.py").write_text(blocks(TRACES, "python")[0])
    token = site.options("tracer", declared, "ingest")["token"]
    told = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{site.url}/v1/traces",
        "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer {token}",
        "OTEL_RESOURCE_ATTRIBUTES": f"branchgate.workflow={declared['workflow']}",
    }
    assert tried(site, "traced.py", **told) == []
    run = Run.objects.get(workflow__name=declared["workflow"])
    intended = json.loads(Receipt.objects.get(run=run, kind="effect_intended").body)["body"]
    assert (intended["tool"], intended["effect_class"]) == ("look_up", "read")


@pytest.mark.parametrize("page", [page.name for page in sorted(DOCS.glob("connect-*.md"))])
def test_a_page_names_no_place_that_a_reader_does_not_have(page: str) -> None:
    text = (DOCS / page).read_text()
    assert [word for word in ("/srv/", '.example"', ".example/", "/path/to") if word in text] == []
    assert "CHECKOUT" in text


def test_no_page_declares_what_another_or_the_demo_declares_otherwise(tmp_path: Path) -> None:
    pages = [page.name for page in DOCS.glob("connect-*.md") if page.name != MCP]
    declared = [json.loads(text[0]) for page in pages if (text := blocks(page, "json"))]
    names = [each["workflow"] for each in declared]
    assert len(names) == len(set(names)) >= 4
    ours = json.loads(lay_out(tmp_path / "demo", 1, sys.executable).targets.read_text())
    theirs = {key["target"] for each in declared for key in each["state_keys"].values()}
    assert theirs & set(ours) == set()


def test_the_crew_of_the_page_waits_is_answered_and_completes_its_hand_over(site: Site) -> None:
    begun(site, "connect-openai-agents.md", "crew.py", "handing.py")
    lines = tried(site, "crew.py")
    assert [line.split()[-1] for line in lines] == ["approval_requested", "refund", "refunded."]
    run = lines[0].split()[0]
    assert events(site, run) == ["delegated", "accepted", "waiting", "progress", "completed"]


@pytest.mark.parametrize("page", ["connect-openai-agents.md", "connect-autogen.md"])
def test_the_hand_overs_of_a_page_are_recorded_and_a_decision_on_one_is_carried_out(
    site: Site, page: str
) -> None:
    declared: dict[str, Any] = json.loads(blocks(page, "json")[0])
    redeliver = {"redeliver": {"attempts": 2, "limit_s": 600}}
    declared["limits"] = {**declared["limits"], "handoffs": redeliver}
    site.publish(declared)
    own = {"name": declared["runtime"], "version": "1"}
    recorder = site.recorder(partial(Recorder.open, runtime=own), declared)
    run = _run(recorder)
    said: dict[str, Any] = {}
    exec(blocks(page, "python")[-1], said)
    said["hand_over"](run)
    assert recorder.flush(60)
    operation = site.handoffs(run.record.run)[-1].subject or ""
    assert site.state(run.record.run, operation) == "orphaned"
    site.decide(run.record.run, operation)
    said["carry_out"](run)
    assert recorder.flush(60)
    assert site.worked(run.record.run, operation) == [True]
    assert site.state(run.record.run, operation) == "false_success"


def _run(recorder: Recorder) -> Any:
    """Return the hand-overs of a run that only has its start: what the snippets use of one."""
    from branches.evidence.ids import mint
    from debugger.recorder.gates import OwnGate

    run = mint("run")
    record = recorder.record(run, run, OwnGate(run, recorder.answers))
    body = {
        "workflow": recorder.declaration.uid,
        "workflow_version": recorder.declaration.version,
        "runtime": {"name": "langgraph", "version": "1"},
        "external_ref": None,
        "configuration": {"agents": [], "routing": None},
        "contract_version": None,
        "phase": None,
        "recording": "full",
    }
    record.emit("run_started", body, durable=True)
    return record.handoffs
