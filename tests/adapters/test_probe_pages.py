"""The pages about these probes, tried as they are written: targets, state keys, facts and commands."""

import json
import re
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from branches.ports import StateProbe, Target
from debugger.adapters.probes.approval_journal import ApprovalJournalProbe
from debugger.adapters.probes.approval_queue import LangGraphInterruptsProbe, RunStateProbe
from debugger.adapters.probes.branchgate_approvals import BranchgateApprovalsProbe
from debugger.adapters.probes.browser import BrowserProbe
from debugger.adapters.probes.git_workspace import GitWorkspaceProbe, edits_of
from debugger.adapters.probes.http_session import HttpSessionProbe
from debugger.adapters.probes.mcp_tools import McpToolsProbe
from tests.adapters.places import KEY, MOMENT, Repository

PAGES = Path(__file__).parents[2] / "docs" / "probes"
NAMES = ("git_workspace", "mcp_tools", "browser", "http_session", "approval_queue")
PROBES: dict[str, StateProbe] = {
    "git_workspace": GitWorkspaceProbe(),
    "mcp_tools": McpToolsProbe(),
    "browser": BrowserProbe(),
    "http_session": HttpSessionProbe(),
    "langgraph_interrupts": LangGraphInterruptsProbe(),
    "openai_run_state": RunStateProbe(),
    "approval_journal": ApprovalJournalProbe(),
    "branchgate_approvals": BranchgateApprovalsProbe(),
}
FACTS = {
    "git_workspace": {"changed_files", "operation", "stashes", "edits"},
    "mcp_tools": {"tools", "tool_classes", "server_version"},
    "browser": {"session", "viewport", "path_reached"},
    "http_session": {"session"},
    "approval_queue": {"pending", "resolved"},
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)


def declared(page: str) -> tuple[dict[str, Any], dict[str, Any]]:
    targets, workflow = (json.loads(block) for block in blocks(page, "json"))
    return targets, workflow


@pytest.mark.parametrize("page", NAMES)
def test_its_state_keys_name_its_targets_and_its_facts_are_the_probes(page: str) -> None:
    targets, workflow = declared(page)
    keys = workflow["state_keys"].values()
    assert {key["target"] for key in keys} <= set(targets)
    assert {key["probe"] for key in keys} <= set(PROBES)
    assert set(workflow["facts"]) == FACTS[page]
    assert len((PAGES / f"{page}.md").read_text().splitlines()) <= 60


@pytest.mark.parametrize("page", NAMES)
def test_its_targets_are_read(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [])
    monkeypatch.setenv("TOOLS_TOKEN", "secret")
    targets, workflow = declared(page)
    by_target = {key["target"]: key["probe"] for key in workflow["state_keys"].values()}
    for name, options in targets.items():
        probe = PROBES[by_target.get(name, page)]
        found = probe.measure(Target(name, options, KEY), MOMENT)
        assert found.fingerprint is None
        assert found.problem not in {None, "target_unfit"}


def commands(page: str) -> dict[str, dict[str, Any]]:
    """The probes that a page's commands ask, with their targets."""
    lines = "".join(blocks(page, "sh")).replace("\\\n", " ").splitlines()
    asked = [shlex.split(line) for line in lines if " probe " in line]
    return {words[3]: json.loads(words[words.index("--target") + 1]) for words in asked}


def test_its_commands_measure_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Repository(tmp_path)
    (place.path / "new.md").write_text("meant")
    monkeypatch.chdir(place.path)
    saved = Path(__file__).with_name("data") / "openai_agents" / "waiting.json"
    Path("run_state.json").write_bytes(saved.read_bytes())
    with sqlite3.connect("checkpoints.sqlite", check_same_thread=False) as connection:
        SqliteSaver(connection).setup()
    connection.close()
    for page in ("git_workspace", "mcp_tools", "approval_queue"):
        for block in blocks(page, "sh"):
            for text, name in re.findall(r"echo '(.*?)' > (\S+)", block):
                Path(name).write_text(text + "\n")
        for name, options in commands(page).items():
            found = PROBES[name].measure(Target("here", options, KEY), MOMENT)
            assert found.problem in {None, "thread_absent"}, name
            assert (found.fingerprint is None) == (name == "langgraph_interrupts")
    assert (edits_of(Path()) or "").startswith("sha256:")


@pytest.mark.parametrize("page", ["browser", "http_session"])
def test_its_command_has_a_form_that_is_read(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [])
    monkeypatch.chdir(tmp_path)
    ((name, options),) = commands(page).items()
    assert PROBES[name].measure(Target("here", options, KEY), MOMENT).problem == "no_address"
