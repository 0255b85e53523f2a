"""What a graph's agents are, part by part: as declared, as recorded, and as a permit pins it."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.canonical import CONFIGURATION, digest
from debugger.demo import declared, team
from debugger.demo.layout import DemoWorld
from debugger.recorder import Recorder
from debugger.recorder.configuration import described, difference, parts_of
from debugger.recorder.conformance.gate import KEY, WORKFLOW_DIGEST, Gate
from debugger.recorder.names import Declaration
from tests.recorder.team import CONFIGURATION as DECLARED
from tests.recorder.team import DECLARATION, MARKER

ROUTING = KEY.digest("state", "graph")


def declaration() -> Declaration:
    return Declaration({"digest": WORKFLOW_DIGEST, "declaration": DECLARATION})


def parts(agents: list[dict[str, Any]]) -> dict[str, str | None]:
    shown = described({"agents": agents}, declaration(), KEY, routing=ROUTING)
    assert MARKER not in str(shown)
    return parts_of(shown, declaration())


def test_it_flattens_every_part_and_names_the_routing_and_the_workflow() -> None:
    own = parts(DECLARED["agents"])
    agents = ("planner", "writer", "publisher")
    named = {f"{agent}.{part}" for agent in agents for part in ("role", "model", "prompt", "tools")}
    assert own.keys() == named | {"routing", "workflow"}
    assert (own["writer.model"], own["routing"], own["workflow"]) == ("fake-1", ROUTING, WORKFLOW_DIGEST)
    assert own["writer.prompt"] == KEY.digest("prompt", "x")


def test_it_knows_nothing_of_a_declared_agent_that_is_left_out() -> None:
    own = parts(DECLARED["agents"][:2])
    assert {own[f"publisher.{part}"] for part in ("role", "model", "prompt", "tools")} == {None}


def test_it_covers_names_that_the_workflow_does_not_declare() -> None:
    own = parts([{"agent": "stranger", "model": "secret-model"}])
    assert not any("stranger" in name or value == "secret-model" for name, value in own.items())


def test_it_keeps_within_the_agents_that_a_receipt_holds() -> None:
    many = {**DECLARATION, "agents": [f"a{n}" for n in range(40)]}
    wide = Declaration({"digest": WORKFLOW_DIGEST, "declaration": many})
    assert len(described({}, wide, KEY, routing=ROUTING)["agents"]) == 24


def test_it_compares_part_by_part_and_by_the_pin_s_digest() -> None:
    own = parts(DECLARED["agents"])
    pin = digest(CONFIGURATION, own)
    assert difference(own, pin, own) is None
    assert difference(own, None, own) == "configuration_differs"
    for name in own:
        changed = {**own, name: "sha256:" + "0" * 64}
        assert difference(changed, digest(CONFIGURATION, changed), own) == "configuration_differs"
        unknown = {**own, name: None}
        assert difference(unknown, digest(CONFIGURATION, unknown), own) == "configuration_unknown"
        fewer = {each: own[each] for each in own if each != name}
        assert difference(fewer, digest(CONFIGURATION, fewer), own) == "configuration_differs"


@pytest.fixture
def demo_recorder(tmp_path: Path) -> Iterator[Recorder]:
    gate = Gate(declared.declaration())
    opened = Recorder.open(
        tmp_path / "home",
        server=gate.url,
        token="secret-token",
        workflow=declared.WORKFLOW,
        version=declared.WORKFLOW_VERSION,
    )
    with closing(opened) as recorder:
        yield recorder
    gate.close()


def test_the_demo_s_team_leaves_no_part_unknown_and_no_tool_unwrapped(
    demo_recorder: Recorder, tmp_path: Path
) -> None:
    assert demo_recorder.unwrapped == ["create_draft", "create_ticket", "publish_draft", "send_mail"]
    graph = team.build(demo_recorder, DemoWorld(tmp_path, 1, "python"))
    shown = demo_recorder.described(demo_recorder.topology(graph))
    own = parts_of(shown, demo_recorder.declaration)
    assert len(own) == 4 * 4 + 2
    assert None not in own.values()
    assert demo_recorder.unwrapped == []
    graph.checkpointer.conn.close()
