"""Where no recorder applies an edit, the page says so and takes none; what can be read is still shown."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from branches.commands.edit_content import edit_message, edit_value
from branches.commands.fork_branch import fork_branch
from branches.commands.import_source import import_lines
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.models import Edit, Receipt, Run, SealedEdit
from branches.queries.content import Wanted
from debugger.web import edits
from tests.builders import World, checkpoint, message, run_started, stopped
from tests.plugins import FakeProbe, FakeWorld
from tests.web.cast import forked

SAID = "what was said"


@pytest.fixture
def asked(outside: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> list[Wanted]:
    """What recorders were asked for; they show it."""
    found: list[Wanted] = []

    def fetch(wanted: Wanted) -> tuple[str | None, str | None]:
        found.append(wanted)
        return SAID, None

    monkeypatch.setattr(edits, "fetch_content", fetch)
    monkeypatch.setattr(FakeProbe, "shows_content", True, raising=False)
    return found


def branch_of(world: World, runtime: str) -> Run:
    """Fork a run of a runtime after its one message."""
    uid = ids.mint("run")
    report = world.ingest(
        run_started(world, uid, runtime={"name": runtime, "version": "0.24.0"}),
        message(world, uid, "brief", "orchestrator"),
        checkpoint(world, uid, "c1"),
        stopped(world, uid),
    )
    assert not report.refused, report.refused
    return forked(world, Run.objects.get(uid=uid))


def page_of(client: Client, branch: Run, **chosen: str) -> str:
    answer = client.get(f"/branches/{branch.uid}/edit/", chosen)
    assert answer.status_code == 200
    return answer.text


def send(world: World, client: Client, branch: Run, **changes: str) -> Any:
    form = {"target": world.hmac("message", "brief"), "text": "a better brief", "edit_class": "change_plan"}
    return client.post(f"/branches/{branch.uid}/edit/", {**form, **changes})


def nothing_was_recorded() -> bool:
    kinds = Receipt.objects.filter(kind="edited")
    return not (Edit.objects.exists() or SealedEdit.objects.exists() or kinds.exists())


def test_messages_of_the_openai_agents_sdk_are_read_and_not_edited(
    ada: Client, world: World, asked: list[Wanted]
) -> None:
    branch = branch_of(world, "openai-agents")
    page = page_of(ada, branch, message=world.hmac("message", "brief"))
    assert "<h1>Messages and values</h1>" in page
    assert "This branch runs on the OpenAI Agents SDK. Its messages can be read, not edited" in page
    assert f'<pre class="content" tabindex="0">{SAID}</pre>' in page
    assert [each.kind for each in asked] == ["message"]
    for offered in ("<textarea", "Record the edit", "Choose", 'name="edit_class"'):
        assert offered not in page, offered


def test_its_state_is_read_as_a_whole_and_not_value_by_value(
    ada: Client, world: World, asked: list[Wanted]
) -> None:
    branch = branch_of(world, "openai-agents")
    page = page_of(ada, branch, key="agent_memory")
    fork = branch.fork_point
    assert "List the values" not in page
    assert "No value can be edited on this branch." in page
    assert f'href="/runs/{fork.parent.uid}/checkpoints/{fork.seq}/agent_memory/"' in page
    assert asked == []


@pytest.mark.parametrize("runtime", ["openai-agents", "autogen"])
def test_the_command_refuses_it_too_and_keeps_what_was_written(
    ada: Client, world: World, asked: list[Wanted], runtime: str
) -> None:
    branch = branch_of(world, runtime)
    for change in ({}, {"state_key": "agent_memory", "target": world.hmac("channel", "a"), "text": '"5"'}):
        answer = send(world, ada, branch, **change)
        assert answer.status_code == 422
        assert "messages and values of this runtime can be read, not edited" in answer.text
        kept = re.search(r'<pre class="content" tabindex="0">(.*?)</pre>', answer.text)
        assert kept is not None
        assert kept.group(1) == change.get("text", "a better brief").replace('"', "&quot;")
    to = {"person": world.ada, "branch": branch, "text": '"x"', "edit_class": "change_plan"}
    with pytest.raises(Refused, match="edits_unsupported"):
        edit_message(target=world.hmac("message", "brief"), **to)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="edits_unsupported"):
        edit_value(state_key="agent_memory", target=world.hmac("channel", "a"), **to)  # type: ignore[arg-type]
    assert nothing_was_recorded()


def test_autogens_recorder_is_not_asked_for_what_it_never_shows(
    ada: Client, world: World, asked: list[Wanted]
) -> None:
    branch = branch_of(world, "autogen")
    page = page_of(ada, branch, message=world.hmac("message", "brief"))
    assert "This branch runs on AutoGen. Its messages can be neither read nor edited here" in page
    assert "<textarea" not in page
    assert ">Read</a>" not in page
    assert asked == []


def test_an_imported_run_has_no_recorder_that_could_show_or_edit(
    ada: Client, world: World, asked: list[Wanted]
) -> None:
    uid = ids.mint("run")
    sent = [
        run_started(world, uid, recording="imported"),
        message(world, uid, "brief", "orchestrator"),
        checkpoint(world, uid, "c1"),
    ]
    lines = [json.dumps(each).encode() for each in sent]
    (done,) = import_lines(workspace=world.workspace, lines=lines, label="lines")
    assert done.refused == []
    branch = fork_branch(
        person=world.ada,
        parent=Run.objects.get(uid=uid),
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis="",
    )
    page = page_of(ada, branch, message=world.hmac("message", "brief"))
    assert "No recorder speaks for this run: its messages and values can be neither shown nor edited." in page
    assert asked == []
    answer = send(world, ada, branch)
    assert answer.status_code == 422
    assert "no recorder speaks for this run" in answer.text
    assert nothing_was_recorded()


def test_langgraphs_messages_are_edited_as_before(ada: Client, world: World, asked: list[Wanted]) -> None:
    branch = branch_of(world, "langgraph")
    page = page_of(ada, branch, message=world.hmac("message", "brief"))
    assert "<h1>Edit a message or a value</h1>" in page
    assert f"{SAID}</textarea>" in page
    assert "not edited" not in page
    assert send(world, ada, branch).status_code == 302
    assert Edit.objects.count() == 1
