"""The pages about connecting LangGraph and the OpenAI Agents SDK are tried as written, on the real server."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from branches.models import Receipt, Run
from debugger.recorder import Recorder
from tests.recorder.pages import DOCS, blocks
from tests.recorder.site import ALL, Site, served

LANGGRAPH = "connect-langgraph.md"


@pytest.fixture
def site(db: None, tmp_path: Path) -> Iterator[Site]:
    with served(tmp_path) as site:
        yield site


def tried(site: Site, *arguments: str) -> list[str]:
    """Run a program of a page in the folder of the site, and return the lines that it printed."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        cwd=site.folder,
        env={**os.environ, "BRANCHGATE_SERVER": site.url, "PYTHONPATH": str(DOCS.parent)},
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


def test_the_page_names_no_place_that_a_reader_does_not_have() -> None:
    page = (DOCS / LANGGRAPH).read_text()
    assert [word for word in ("/srv/", '.example"', ".example/", "/path/to") if word in page] == []


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
    recorder = site.recorder(Recorder.open, declared)
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
