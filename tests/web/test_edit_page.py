"""The edit page: what the recorder shows is listed and chosen, and what a person wrote is never lost."""

import json
from typing import Any

import pytest
from django.test import Client

from branches.commands.edit_content import MAX_EDIT_BYTES
from branches.commands.issue_permit import bound_values
from branches.models import Edit, Receipt, Run, SealedEdit
from branches.queries.branch_facts import branch_view
from branches.queries.content import Wanted
from debugger.web import edits
from tests.builders import World
from tests.plugins import FakeProbe, FakeWorld

MARKER = "CONTENT-MARKER-7f3a"


class FakeRecorder:
    """Answers as a recorder would; `values` is what it lists."""

    def __init__(self, world: World) -> None:
        self.asked: list[Wanted] = []
        self.values: Any = [
            {
                "channel": "messages",
                "target": world.hmac("channel", "messages"),
                "problem": "value_is_messages",
            },
            {"channel": "limit", "target": world.hmac("channel", "limit"), "problem": None},
        ]
        self.problem: str | None = None

    def __call__(self, wanted: Wanted) -> tuple[str | None, str | None]:
        self.asked.append(wanted)
        if self.problem is not None:
            return None, self.problem
        return (json.dumps(self.values) if wanted.kind == "values" else f'"{MARKER}"'), None


@pytest.fixture
def recorder(world: World, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> FakeRecorder:
    found = FakeRecorder(world)
    monkeypatch.setattr(edits, "fetch_content", found)
    monkeypatch.setattr(FakeProbe, "shows_content", True, raising=False)
    return found


@pytest.fixture
def limit(world: World) -> str:
    return world.hmac("channel", "limit")


def value_form(limit: str, **changes: str) -> dict[str, str]:
    return {
        "state_key": "agent_memory",
        "target": limit,
        "text": "5",
        "edit_class": "change_plan",
        **changes,
    }


def test_it_asks_the_recorder_for_nothing_before_something_is_chosen(
    ada: Client, branch: Run, recorder: FakeRecorder
) -> None:
    page = ada.get(f"/branches/{branch.uid}/edit/").content.decode()
    assert "List the values of agent memory" in page
    assert "Choose a message or a value." in page
    assert recorder.asked == []


def test_it_lists_the_values_and_says_which_are_not_edited_here(
    ada: Client, branch: Run, recorder: FakeRecorder
) -> None:
    page = ada.get(f"/branches/{branch.uid}/edit/?key=agent_memory").content.decode()
    assert "<code>limit</code>" in page
    assert "edit it message by message" in page
    (asked,) = recorder.asked
    fork = branch.fork_point
    assert (asked.kind, asked.run, asked.checkpoint) == ("values", fork.parent.uid, fork.checkpoint)


def test_it_shows_a_chosen_value_live_and_is_kept_in_no_cache(
    ada: Client, branch: Run, recorder: FakeRecorder, limit: str
) -> None:
    answer = ada.get(f"/branches/{branch.uid}/edit/", {"key": "agent_memory", "value": limit})
    page = answer.content.decode()
    assert f"&quot;{MARKER}&quot;</textarea>" in page
    assert [each.kind for each in recorder.asked] == ["values", "value"]
    assert "no-store" in answer.headers["Cache-Control"]


def test_it_does_not_choose_a_value_that_cannot_be_edited(
    ada: Client, world: World, branch: Run, recorder: FakeRecorder
) -> None:
    target = world.hmac("channel", "messages")
    page = ada.get(f"/branches/{branch.uid}/edit/", {"key": "agent_memory", "value": target}).content.decode()
    assert "<textarea" not in page
    assert [each.kind for each in recorder.asked] == ["values"]


@pytest.mark.parametrize(
    "values",
    [
        None,
        7,
        [7],
        [{"channel": "a"}],
        [{"channel": 7, "target": "x", "problem": None}],
        [{"channel": "a", "target": "javascript:x", "problem": None}],
        [{"channel": "a", "target": ["x"], "problem": None}],
    ],
)
def test_it_shows_nothing_of_a_list_that_is_none(
    ada: Client, branch: Run, recorder: FakeRecorder, values: Any
) -> None:
    recorder.values = values
    answer = ada.get(f"/branches/{branch.uid}/edit/?key=agent_memory")
    assert answer.status_code == 200
    assert "The recorder could not list them: answer unreadable." in answer.content.decode()


def test_it_says_when_the_recorder_is_away(ada: Client, branch: Run, recorder: FakeRecorder) -> None:
    recorder.problem = "recorder_offline"
    page = ada.get(f"/branches/{branch.uid}/edit/?key=agent_memory").content.decode()
    assert "It has to be online for values to be shown." in page


def test_it_records_an_edit_of_a_value_by_digests_alone(
    ada: Client, world: World, branch: Run, recorder: FakeRecorder, limit: str
) -> None:
    text = json.dumps(MARKER)
    answer = ada.post(f"/branches/{branch.uid}/edit/", value_form(limit, text=text))
    assert answer.headers["Location"] == f"/branches/{branch.uid}/#edits"
    receipt = Receipt.objects.get(run=branch, kind="edited")
    assert json.loads(receipt.body)["body"] == {
        "target": limit,
        "state_key": "agent_memory",
        "edit": world.hmac("edit", text),
        "edit_class": "change_plan",
    }
    assert MARKER not in str(receipt.body)
    sealed = SealedEdit.objects.get(edit__branch=branch)
    assert json.loads(world.box.open(bytes(sealed.ciphertext))) == {"text": text}
    assert bound_values(branch_view(branch))["edits"] == [json.loads(receipt.body)["body"]]
    page = ada.get(f"/branches/{branch.uid}/").content.decode()
    assert "agent memory value" in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"text": f"not json {MARKER}"}, "text has to be JSON"),
        ({"text": "NaN"}, "text has to be JSON"),
        ({"text": " "}, "text is required"),
        ({"text": '"' + "x" * MAX_EDIT_BYTES + '"'}, "text is too long"),
        ({"target": "limit"}, "no value was chosen"),
        ({"state_key": "browser_2"}, "the values of that state key cannot be edited"),
        ({"edit_class": "other words"}, "edit class is not one of the choices"),
    ],
)
def test_it_refuses_an_edit_in_words_records_nothing_and_keeps_what_was_written(
    ada: Client, branch: Run, recorder: FakeRecorder, limit: str, change: dict[str, str], words: str
) -> None:
    form = value_form(limit, **change)
    answer = ada.post(f"/branches/{branch.uid}/edit/", form)
    page = answer.content.decode()
    assert answer.status_code == 422
    assert words in page
    if form["text"].strip():
        assert form["text"].replace('"', "&quot;") in page
    assert not Edit.objects.exists()
    assert not Receipt.objects.filter(kind="edited").exists()


def test_it_keeps_what_was_written_on_a_message_too(
    ada: Client, world: World, branch: Run, recorder: FakeRecorder
) -> None:
    form = {"target": world.hmac("message", "brief"), "text": "a better brief", "edit_class": "nonsense"}
    answer = ada.post(f"/branches/{branch.uid}/edit/", form)
    assert answer.status_code == 422
    assert ">a better brief</textarea>" in answer.content.decode()


def test_it_edits_no_value_of_a_key_whose_content_nothing_shows(
    ada: Client, branch: Run, recorder: FakeRecorder, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeProbe, "shows_content", False, raising=False)
    page = ada.get(f"/branches/{branch.uid}/edit/?key=agent_memory").content.decode()
    assert "No required state key has values that a recorder can show." in page
    answer = ada.post(f"/branches/{branch.uid}/edit/", value_form(limit))
    assert answer.status_code == 422
    assert not Edit.objects.exists()
