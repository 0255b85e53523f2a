"""Whatever is changed in a runtime's file, an importer gives whole runs or a refusal, and never content."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from branches.ports import RuntimeImporter
from debugger.adapters.runtimes.ai_sdk import AiSdkImporter
from debugger.adapters.runtimes.openai_agents import OpenAIAgentsImporter
from tests.adapters.places import KEY, MARKER
from tests.adapters.source_runs import a_file, check, everything, handoff_verdicts, read, stop_states

SAVED = Path(__file__).with_name("data")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 3, 2**53 - 1, 2**60, 1.5, "", [], {}, [[]], ["a"]),
    *(MARKER, f"{MARKER} é\u2028", {MARKER: 1}, {"type": MARKER}, "stop", "2026-11-30T11:08:35+00:00"),
    *(KEY.digest("name", "tool\0search"), "per_" + "a" * 24, "x" * 300),
)


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, member in members:
        yield from places(member, (*place, step))


def at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def changed(value: Any, dice: random.Random) -> Any:
    value = json.loads(json.dumps(value))
    for _ in range(dice.choice((1, 1, 3))):
        every = list(places(value))
        *above, step = dice.choice(every)
        owner = at(value, tuple(above))
        match dice.randrange(4):
            case 0:
                del owner[step]
            case 1:
                owner[step] = json.loads(json.dumps(at(value, dice.choice(every))))
            case _:
                owner[step] = dice.choice(VALUES)
    return value


@pytest.mark.parametrize(
    ("importer", "folder"), [(AiSdkImporter(), "ai_sdk_7"), (OpenAIAgentsImporter(), "openai_agents")]
)
@pytest.mark.parametrize("seed", range(4))
def test_a_changed_file_gives_whole_runs_or_a_refusal(
    importer: RuntimeImporter, folder: str, seed: int
) -> None:
    dice = random.Random(seed)
    files = [json.loads(path.read_bytes()) for path in sorted((SAVED / folder).glob("*.json"))]
    runs = 0
    for _ in range(50):
        two = [a_file(label, changed(dice.choice(files), dice)) for label in ("one", "two")]
        found = read(importer, *two)
        assert MARKER not in everything(found)
        for run in found.runs:
            check(run)
            stop_states(run)
            handoff_verdicts(run)
        again = read(importer, *reversed(two), *two)
        assert {run.external_ref: run for run in again.runs} == {run.external_ref: run for run in found.runs}
        runs += len(found.runs)
    assert runs > 25
