"""What a newcomer meets first: the text to begin with, the next step, the lines to copy, commands' words."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command
from django.test import Client

from branches.commands.admit import make_workspace
from branches.commands.ask_destination import ask_destination
from branches.commands.publish_workflow import publish_workflow
from branches.models import Person, Run, Workspace
from branches.ports import Answer
from branches.queries.connect_page import connect_page
from branches.queries.workflow_form import problem_of
from branches.queries.workflow_text import starter
from debugger.management.commands.serve import words_of_start
from tests.builders import World, declaration
from tests.plugins import FakeWorld

READS = {"look_up": {"destination": None, "effect_class": "read"}}


@pytest.mark.parametrize(
    ("runtime", "key", "probe"),
    [
        ("langgraph", "agent_memory", "langgraph_memory"),
        ("openai-agents", "agent_memory", "openai_agents_memory"),
        ("autogen", "agent_memory", "autogen_team"),
        ("ai-sdk", "workspace", "git_workspace"),
        ("opentelemetry", "workspace", "git_workspace"),
    ],
)
def test_the_text_to_begin_with_measures_what_its_runtime_has(runtime: str, key: str, probe: str) -> None:
    declared = yaml.safe_load(starter({"runtime": runtime, "workflow": "desk"}))
    assert problem_of(declared) is None
    assert {name: each["probe"] for name, each in declared["state_keys"].items()} == {key: probe}


def published(workspace: Workspace, **changes: Any) -> None:
    publish_workflow(workspace=workspace, publisher=workspace.uid, declaration=declaration(**changes))


def destinations_of(workspace: Workspace) -> tuple[bool, str]:
    step = next(each for each in connect_page(workspace).steps if each.name == "Destinations")
    return step.is_done, step.missing


@pytest.mark.django_db
def test_workflows_whose_tools_write_nowhere_need_no_destination() -> None:
    workspace = make_workspace(name="new")
    assert destinations_of(workspace) == (False, "No workflow names a destination yet.")
    published(workspace, tools=READS, destinations={})
    assert destinations_of(workspace)[0] is True
    published(workspace, workflow="writes")
    assert destinations_of(workspace)[0] is False


def test_the_page_says_how_the_operator_names_an_owner(ada: Client, world: World) -> None:
    assert "manage.py admit NAME --role destination_owner:DESTINATION" in ada.get("/connect/").text


@pytest.mark.parametrize("runtime", ["langgraph", "openai-agents", "autogen"])
def test_the_lines_name_the_newest_version_of_the_workflow_and_no_place_of_ours(
    ada: Client, world: World, runtime: str
) -> None:
    published(world.workspace, workflow="mine", version="2.1.0", runtime=runtime)
    page = ada.post("/connect/token/", {"name": "host", "runtime": runtime}).text
    assert 'workflow="mine"' in page
    assert 'version="2.1.0"' in page
    assert "/path/to" not in page
    assert "--scope ingest --scope redeem --scope read" in page


def test_the_targets_of_the_lines_are_those_that_the_workflow_names(ada: Client, world: World) -> None:
    bare = ada.post("/connect/token/", {"name": "host", "runtime": "langgraph"}).text
    assert '{"my-workflow-memory": {' in bare
    keys = {"agent_memory": {"probe": "langgraph_memory", "target": "team-memory"}}
    published(world.workspace, workflow="mine", runtime="langgraph", state_keys=keys)
    page = ada.post("/connect/token/", {"name": "host", "runtime": "langgraph"}).text
    assert '{"team-memory": {"store": "checkpoints.sqlite"' in page


def test_lines_of_a_runtime_that_only_sends_say_nothing_of_reading(ada: Client, world: World) -> None:
    assert "--scope read" not in ada.post("/connect/token/", {"name": "t", "runtime": "ai-sdk"}).text


def test_another_text_under_a_published_version_is_told_what_to_do(world: World, tmp_path: Path) -> None:
    file = tmp_path / "workflow.json"
    file.write_text(json.dumps(declaration(owners=["somebody"])))
    with pytest.raises(CommandError, match="it never changes, so what differs needs another version"):
        call_command("publish_workflow", str(file), "--workspace", world.workspace.name, stdout=io.StringIO())


@pytest.mark.django_db
def test_a_server_that_nobody_can_sign_in_to_says_how_to_let_somebody_in() -> None:
    assert "manage.py admit NAME --role engineer" in words_of_start("127.0.0.1", 8000)
    Person.objects.create_user("kay", password="correct horse battery")
    assert "admit" not in words_of_start("127.0.0.1", 8000)


def test_one_effect_that_cannot_be_undone_waits_in_the_singular(
    ada: Client, world: World, branch: Run, outside: FakeWorld
) -> None:
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    ask_destination(branch=branch, operation_key=world.operation("mail"))
    assert "1 that cannot be undone and waits for a decision" in ada.get(f"/branches/{branch.uid}/").text
