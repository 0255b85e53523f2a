"""The recorder's program for the OpenAI Agents SDK: permits come by the poll, content goes sealed."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.boxes import BoxKey
from branches.ports import Moment, Target
from debugger.adapters.probes.openai_agents_memory import RunStateMemoryProbe
from debugger.recorder import openai_agents
from debugger.recorder.conformance.gate import KEY
from debugger.recorder.openai_agents import serves
from tests.patience import PATIENCE_S, comes
from tests.recorder.openai_agents.crew import MARKER, Bench, says
from tests.recorder.openai_agents.test_branching import branch_of, fork, waiting, yes


def test_it_resumes_a_branch_whose_permit_came_by_the_poll(bench: Bench) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    bench.gate.permits.append(envelope)
    serving = openai_agents.serving(
        bench.recorder, lambda recorder: bench.crew([says()], recorder=recorder), decide=yes
    )
    thread = threading.Thread(target=serving.run)
    thread.start()
    assert comes(lambda: bench.recorder.flush(0.1) and bench.gate.of(branch_of(envelope), "stopped"))
    serving.stop()
    thread.join(PATIENCE_S)
    assert bench.stop(branch_of(envelope)) == ("false_complete", ["no_receipt"])
    assert [order for order, _ in bench.desk] == ["7"]


def asked(bench: Bench, **request: Any) -> tuple[str, str | None]:
    """Ask for content as a page does; returns the recorder's word and what the page opens."""
    page = BoxKey.generate()
    public = base64.b64encode(page.public).decode()
    word = serves.show(bench.recorder, {"request": "q-1", "public": public, **request})
    sealed = bench.gate.answers.pop("q-1").get("sealed")
    return word, None if sealed is None else page.open(base64.b64decode(sealed)).decode()


def test_it_shows_a_message_and_a_state_to_the_page_that_asked(bench: Bench) -> None:
    run = waiting(bench)
    told = bench.bodies("message")
    for checkpoint in (None, fork(bench)["checkpoint"]):
        asks = {"run": run.run, "checkpoint": checkpoint, "kind": "message"}
        assert asked(bench, subject=told[0]["message"], **asks) == ("sealed", f"help {MARKER}")
    word, state = asked(bench, run=run.run, checkpoint=None, kind="state", subject="agent_memory")
    assert word == "sealed"
    assert json.loads(state or "")["current_agent"] == {"name": "billing"}
    for other in ({"kind": "message", "subject": "x"}, {"kind": "state", "subject": "x"}):
        assert asked(bench, run=run.run, checkpoint=None, **other) == ("not_found", None)
    assert asked(bench, run="run_x", checkpoint=None, kind="message", subject="x")[0] == "not_found"


def measured(bench: Bench, point: dict[str, Any], ref: str | None, store: Path | None = None) -> Any:
    place = store or bench.folder / "home" / "states"
    moment = Moment(ref, point["checkpoint"], datetime.now(UTC))
    return RunStateMemoryProbe().measure(Target("memory", {"store": str(place)}, KEY), moment)


def test_the_probe_measures_what_the_recorder_recorded(bench: Bench) -> None:
    run = waiting(bench)
    for point in bench.bodies("checkpoint"):
        for ref in (run.external_ref, None):
            found = measured(bench, point, ref)
            assert found.fingerprint == point["state"]["agent_memory"]["fingerprint"]


def test_the_probe_says_what_stands_in_the_way(bench: Bench) -> None:
    run = waiting(bench)
    point = fork(bench)
    assert measured(bench, {"checkpoint": None}, None).problem == "no_checkpoint"
    assert measured(bench, {"checkpoint": KEY.digest("checkpoint", "x")}, None).problem == "checkpoint_absent"
    assert measured(bench, point, KEY.digest("thread", "x")).problem == "checkpoint_absent"
    away = measured(bench, point, None, bench.folder / "nowhere")
    assert (away.problem, away.reachable) == ("store_unreadable", False)
    newest = max((bench.folder / "home" / "states" / run.trace).iterdir())
    newest.write_text("{}")
    assert measured(bench, point, run.external_ref).problem == "state_malformed"


CHILD = """
import json, sys
from pathlib import Path
from agents import set_trace_processors
from debugger.adapters.probes.openai_agents_memory import RunStateMemoryProbe
from debugger.recorder import openai_agents
from tests.recorder.openai_agents.crew import Bench, says
set_trace_processors([])
class Elsewhere:
    url = sys.argv[2]
bench = Bench(Elsewhere, Path(sys.argv[1]))
openai_agents.resume(bench.recorder, bench.crew([says()]), json.loads(sys.argv[3]), decide=lambda item: True)
"""


@pytest.mark.parametrize("point", ["after_redeem", "after_starting"])
def test_an_approved_call_is_made_at_most_once_when_the_program_is_killed(bench: Bench, point: str) -> None:
    waiting(bench)
    envelope = bench.gate.permit(checkpoint=fork(bench))
    killed = subprocess.run(
        [sys.executable, "-c", CHILD, str(bench.folder), bench.gate.url, json.dumps(envelope)],
        env={**os.environ, "BRANCHGATE_CRASH_AT": point, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        check=False,
        timeout=300,
    )
    assert killed.returncode == -signal.SIGKILL
    goes_on = point == "after_redeem"
    word = openai_agents.resume(bench.recorder, bench.crew([says()]), envelope, decide=yes)
    assert word == ("natural_finish" if goes_on else "already_started")
    assert len(bench.desk) == (1 if goes_on else 0)
    assert len(set(bench.gate.redemptions.values())) == 1
    assert len(bench.bodies("started", branch_of(envelope))) == (1 if goes_on else 0)
