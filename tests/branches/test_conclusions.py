"""A conclusion answers a fork's hypothesis: what people wrote is sealed, and by digest in the record."""

import pytest
from django.db import connection

from branches.commands.conclude import conclude
from branches.commands.fork_branch import fork_branch
from branches.commands.refusal import Refused
from branches.models import Receipt, Run, WorkspaceNote
from branches.queries.chains import latest
from branches.queries.compare import comparison
from branches.queries.notes import note_of
from branches.queries.run_list import RunRow, run_list
from tests.builders import World, failed_run

WRITTEN = "the brief lacks a section: zebra-canary"


def listed(world: World) -> tuple[RunRow, ...]:
    return tuple(run_list(world.workspace, chosen="all", before=None, find="").rows)


def forked(world: World, parent: Run) -> Run:
    return fork_branch(
        person=world.ada,
        parent=parent,
        checkpoint=world.checkpoint("c1"),
        reason_code="false_success",
        edit_class="add_detail",
        hypothesis=WRITTEN,
    )


def test_a_hypothesis_is_read_by_the_workspace_and_stands_nowhere_in_the_clear(world: World) -> None:
    root = failed_run(world)
    branch = forked(world, root)
    compared = comparison(root, chosen=[], only_differences=False)
    [(number, note)] = compared.hypotheses
    assert (number, note.text, note.by) == (branch.number, WRITTEN, world.ada.username)
    assert not Receipt.objects.filter(body__contains="zebra").exists()
    sealed = bytes(WorkspaceNote.objects.get(run=branch).sealed)
    assert b"zebra" not in sealed
    tables = connection.introspection.table_names()
    assert "branches_workspacenote" in tables


def test_a_conclusion_says_what_was_learnt_and_whether_the_incident_is_closed(world: World) -> None:
    root = failed_run(world)
    branch = forked(world, root)
    conclude(
        person=world.rosa,
        root=root,
        conclusion="inconclusive",
        chosen=branch,
        learnt=["tool_failed", "claim_unchecked", "tool_failed"],
        note="ask the desk to say when it publishes",
        closes=False,
    )
    said = latest(root.pk, "concluded")
    assert said is not None
    assert said.body["learnt"] == ["claim_unchecked", "tool_failed"]
    note = note_of(root, said.body["note"])
    assert note is not None
    assert note.text == "ask the desk to say when it publishes"
    assert [row.concluded for row in listed(world)] == [False]
    conclude(person=world.rosa, root=root, conclusion="refuted", chosen=None)
    assert [row.concluded for row in listed(world)] == [True]


def test_a_lesson_that_is_not_of_the_list_and_a_note_that_is_too_long_change_nothing(world: World) -> None:
    root = failed_run(world)
    for more, field in (({"learnt": ["something"]}, "learnt"), ({"note": "x" * 4001}, "note")):
        with pytest.raises(Refused) as refused:
            conclude(person=world.rosa, root=root, conclusion="refuted", chosen=None, **more)  # type: ignore[arg-type]
        assert refused.value.field == field
    assert latest(root.pk, "concluded") is None
    assert not WorkspaceNote.objects.exists()


def test_a_deleted_note_leaves_the_record_whole(world: World) -> None:
    root = failed_run(world)
    branch = forked(world, root)
    WorkspaceNote.objects.all().delete()
    assert comparison(root, chosen=[], only_differences=False).hypotheses == ()
    forked_at = latest(branch.pk, "forked")
    assert forked_at is not None
    assert forked_at.body["hypothesis"].startswith("hmac-sha256:")
