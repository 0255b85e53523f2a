"""The tool registry of a run: what its checkpoints say changed, counted, and named where it may be."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from branches.commands.import_source import import_source
from branches.commands.publish_workflow import publish_workflow
from branches.evidence import ids
from branches.evidence.drift import part_ref
from branches.models import Redemption, Run
from branches.ports import Moment, SourceFile, Target
from branches.queries.branch_facts import branch_view
from branches.queries.clock import now
from branches.queries.registry_drift import RegistryChange, RegistryDrift, registry_drift
from branches.queries.secrets import workspace_key
from debugger.adapters.probes.mcp_tools import McpToolsProbe
from tests.branches.raw_rows import permit
from tests.builders import World, checkpoint, closed, declaration, run_started, stopped
from tests.plugins import FakeWorld
from tests.web.cast import forked

MARKER = "CONTENT-MARKER-7f3a"


@pytest.fixture
def uid(world: World) -> str:
    """A run whose workflow measures its tool registry, begun."""
    keys = {
        "tool_registry": {"probe": "mcp_tools", "target": "tools"},
        "workspace": {"probe": "files", "target": "here"},
    }
    # All that it writes to is made for tests, so that a branch needs nobody's word.
    places = {name: {"query": "fake", "target": name, "fixture": True} for name in ("tickets", "mail")}
    declared = declaration(
        version="7.0.0",
        state_keys=keys,
        facts={"tools": [], "tool_classes": []},
        destinations=places,
    )
    workflow = publish_workflow(
        workspace=world.workspace, publisher=world.workspace.uid, declaration=declared
    )
    world.workflow = workflow
    uid = ids.mint("run")
    assert not world.ingest(run_started(world, uid)).refused
    return uid


def tool(name: str, says: str = "as it was") -> dict[str, Any]:
    return {"name": name, "description": f"{MARKER} {says}", "inputSchema": {"type": "object"}}


def passes(world: World, uid: str, name: str, tools: list[dict[str, Any]], folder: Path) -> None:
    """Record a checkpoint with the registry as our own probe measures it."""
    path = folder / "tools.json"
    path.write_text(json.dumps({"tools": tools}))
    here = Target("tools", {"file": str(path)}, workspace_key(world.workspace))
    found = McpToolsProbe().measure(here, Moment(None, None, now()))
    assert found.fingerprint is not None
    facts = found.facts if len(found.parts) > 24 else {**found.facts, **found.parts}
    record(world, uid, name, {"fingerprint": found.fingerprint, "facts": facts})


def record(world: World, uid: str, name: str, registry: dict[str, Any] | None) -> None:
    sent = checkpoint(world, uid, name, workspace=world.state())
    if registry is not None:
        sent["body"]["state"]["tool_registry"] = registry
    report = world.ingest(sent)
    assert not report.refused, report.refused


def drift(uid: str) -> RegistryDrift:
    found = registry_drift(Run.objects.get(uid=uid))
    assert found is not None
    return found


def counts(change: RegistryChange) -> tuple[int, int, int]:
    return change.added, change.removed, change.changed


def page_of(client: Client, uid: str) -> str:
    return client.get(f"/runs/{uid}/audits/").content.decode()


def test_it_counts_tools_between_checkpoints_and_names_the_declared_ones(
    ada: Client, world: World, uid: str, tmp_path: Path
) -> None:
    first = [tool("look_up"), tool("send_mail"), tool(f"own-{MARKER}")]
    then = [tool("look_up", "otherwise"), tool("create_ticket"), tool(f"own-{MARKER}", "otherwise")]
    passes(world, uid, "c1", first, tmp_path)
    passes(world, uid, "c2", first[::-1], tmp_path)
    record(world, uid, "c3", None)  # nobody measured it there
    passes(world, uid, "c4", then, tmp_path)
    passes(world, uid, "c5", then[:1], tmp_path)
    found = drift(uid)
    assert (found.compared, found.more) == (3, False)
    change, less = found.changes
    assert (change.before.seq, change.after.seq, change.key) == (3, 5, "tool_registry")
    assert (counts(change), counts(less)) == ((1, 1, 2), (0, 2, 0))
    assert {(each.part, each.change) for each in change.named} == {
        ("look_up", "changed"),
        ("send_mail", "removed"),
        ("create_ticket", "added"),
    }
    assert set(change.aspects) == {"names", "schemas", "descriptions", "annotations"}
    page = page_of(ada, uid)
    assert "3 pairs of checkpoints compared" in page
    assert "<code>create_ticket</code> added" in page
    assert f"/runs/{uid}/?at=5&amp;mark=5#r5" in page
    assert MARKER not in page


def test_it_says_that_the_tools_stayed(ada: Client, world: World, uid: str, tmp_path: Path) -> None:
    for name in ("c1", "c2"):
        passes(world, uid, name, [tool("look_up")], tmp_path)
    assert drift(uid).changes == ()
    assert "The tools stayed as they were." in page_of(ada, uid)


def test_it_counts_none_as_no_tool_and_very_many_not_at_all(
    ada: Client, world: World, uid: str, tmp_path: Path
) -> None:
    many = [tool(f"tool-{number}") for number in range(21)]
    for name, tools in (("c1", []), ("c2", many[:2]), ("c3", many), ("c4", many[:20])):
        passes(world, uid, name, tools, tmp_path)
    first, *rest = drift(uid).changes
    assert (counts(first), first.counts_tools) == ((2, 0, 0), True)
    assert [each.counts_tools for each in rest] == [False, False]
    assert page_of(ada, uid).count("too many tools to be told apart") == 2


def test_it_says_of_undivided_registries_only_that_they_changed(ada: Client, world: World, uid: str) -> None:
    for name in ("c1", "c2"):
        record(world, uid, name, {"fingerprint": world.state(name), "facts": {}})
    (change,) = drift(uid).changes
    assert (change.is_divided, counts(change), change.named) == (False, (0, 0, 0), ())
    assert "changed; the parts were not recorded" in page_of(ada, uid)


def test_it_shows_nothing_where_there_is_nothing_to_compare(
    ada: Client, run: Run, world: World, uid: str
) -> None:
    assert registry_drift(run) is None  # its workflow measures no registry
    record(world, uid, "c1", {"fingerprint": world.state("c1"), "facts": {}})
    record(world, uid, "c2", {"fingerprint": None, "facts": {}})
    assert registry_drift(Run.objects.get(uid=uid)) is None
    for each in (uid, run.uid):
        assert "Tool registry" not in page_of(ada, each)


HINTS: dict[str, dict[str, bool]] = {
    "look_up": {"readOnlyHint": True},
    "create_ticket": {"destructiveHint": True},
    "send_mail": {"destructiveHint": False, "openWorldHint": False},
    "own": {},
}


def test_it_shows_what_each_tools_annotations_say_beside_what_the_workflow_declares(
    ada: Client, world: World, uid: str, tmp_path: Path
) -> None:
    passes(world, uid, "c1", [{**tool(name), "annotations": said} for name, said in HINTS.items()], tmp_path)
    found = {each.tool: (each.said, each.declared, each.is_belied) for each in drift(uid).classes}
    own = part_ref(workspace_key(world.workspace), "own")
    assert found == {
        "create_ticket": ("irreversible", "reversible", True),
        own: ("unknown", None, False),
        "send_mail": ("reversible", "irreversible", False),
        "look_up": ("read", "read", False),
    }
    assert drift(uid).compared == 0
    for address in (f"/runs/{uid}/", f"/runs/{uid}/audits/"):
        page = ada.get(address).content.decode()
        assert page.count("less than the server says") == 1
        assert "By its annotations" in page
        assert "The tools stayed as they were." not in page
        assert MARKER not in page


def test_a_number_that_cannot_be_of_these_tools_says_nothing_of_them(
    world: World, uid: str, tmp_path: Path
) -> None:
    passes(world, uid, "c1", [tool("look_up")], tmp_path)
    newest = drift(uid).classes
    assert [each.said for each in newest] == ["unknown"]
    parts = dict.fromkeys([part_ref(workspace_key(world.workspace), "look_up")], world.state())
    record(world, uid, "c2", {"fingerprint": world.state("c2"), "facts": {**parts, "tool_classes": 4}})
    assert drift(uid).classes == ()


def test_a_branchs_drift_begins_at_the_checkpoint_that_it_was_forked_from(
    ada: Client, world: World, uid: str, outside: FakeWorld, tmp_path: Path
) -> None:
    passes(world, uid, "c1", [tool("look_up")], tmp_path)
    passes(world, uid, "c2", [tool("look_up"), tool("send_mail")], tmp_path)
    assert not world.ingest(stopped(world, uid), closed(world, uid)).refused
    branch = forked(world, Run.objects.get(uid=uid))
    assert drift(branch.uid).changes == ()  # it stands where it was forked
    begun(world, branch)
    passes(world, branch.uid, "b1", [tool("look_up", "otherwise")], tmp_path)
    passes(world, branch.uid, "b2", [], tmp_path)
    first, then = drift(branch.uid).changes
    # What its parent's next checkpoint had is none of its own.
    assert (counts(first), first.is_from_fork) == ((0, 0, 1), True)
    assert (counts(then), then.is_from_fork) == ((0, 1, 0), False)
    assert [counts(each) for each in drift(uid).changes] == [(1, 0, 0)]
    for address in (f"/branches/{branch.uid}/", f"/runs/{branch.uid}/", f"/runs/{branch.uid}/audits/"):
        page = ada.get(address).content.decode()
        assert "fork point →" in page
        assert "<code>look_up</code> changed" in page
        assert MARKER not in page


def begun(world: World, branch: Run) -> None:
    """Let the branch have begun, whatever its gates say: what is looked at is what it records then."""
    facts = json.dumps(branch_view(branch).facts.as_json())
    done = Redemption.objects.create(
        permit=permit(world, branch, 0), branch=branch, attempt=ids.mint("att"), sealed_facts=facts, at=now()
    )
    started = world.sent(branch.uid, "started", {"permit": done.permit.uid, "attempt": done.attempt})
    assert not world.ingest(started).refused


def test_it_reads_an_imported_registry_too(ada: Client, world: World) -> None:
    lists = [[tool("look_up"), tool("gone")], [tool("look_up", "otherwise")]]
    files = [SourceFile(f"{n}.json", json.dumps({"tools": each}).encode()) for n, each in enumerate(lists)]
    (done,) = import_source(workspace=world.workspace, importer="mcp", files=files)
    assert done.run is not None
    (change,) = drift(done.run).changes
    assert counts(change) == (0, 1, 1)
    assert [each.said for each in drift(done.run).classes] == ["unknown"]
    page = page_of(ada, done.run)
    assert "Tool registry" in page
    assert MARKER not in page
