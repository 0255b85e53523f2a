"""Content is shown to who asked, sealed, and kept nowhere; the command line serves and stops cleanly."""

import base64
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from branches.evidence.boxes import BoxKey
from debugger.recorder import cli, content
from debugger.recorder.conformance.gate import KEY, Gate, claims_of
from debugger.recorder.serving import Serving
from tests.patience import PATIENCE_S, comes
from tests.recorder.team import MARKER, World, ask, build


def request(box: BoxKey, run: str, kind: str, subject: str, checkpoint: str | None = None) -> dict[str, Any]:
    return {
        "request": "req_" + "a" * 24,
        "run": run,
        "kind": kind,
        "subject": subject,
        "checkpoint": checkpoint,
        "public": base64.b64encode(box.public).decode(),
    }


def opened(gate: Gate, box: BoxKey) -> str:
    (answer,) = gate.answers.values()
    return box.open(base64.b64decode(answer["sealed"])).decode()


def recorded(gate: Gate, world: World) -> tuple[Any, Any, str]:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    run = recorder.start_run(graph, thread_id="t-1")
    run.invoke(ask())
    assert recorder.flush(60)
    return recorder, graph, run.run


def test_it_shows_a_message_sealed_to_the_asking_key(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    box = BoxKey.generate()
    plan = gate.of(run, "message")[1]
    checkpoint = gate.of(run, "checkpoint")[2]["checkpoint"]
    asked = request(box, run, "message", plan["message"], checkpoint)
    assert content.answer(recorder, graph, asked) == "sealed"
    assert MARKER not in json.dumps(gate.answers)
    shown = opened(gate, box)
    assert shown == f"the plan {MARKER}"
    assert KEY.digest("content", shown) == plan["content"]


def test_it_shows_a_channel_s_value(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    box = BoxKey.generate()
    content.answer(recorder, graph, request(box, run, "state", "ticket"))
    assert json.loads(opened(gate, box)) == "create_ticket-1"


def test_it_shows_the_whole_memory_for_the_key_that_is_the_memory(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    box = BoxKey.generate()
    content.answer(recorder, graph, request(box, run, "state", "agent_memory"))
    assert set(json.loads(opened(gate, box))) == {"messages", "ticket"}


@pytest.mark.parametrize(("run", "subject"), [(None, "hmac-sha256:0badc0de:" + "0" * 64), ("run_x", "x")])
def test_it_says_not_found_and_nothing_else(gate: Gate, world: World, run: str | None, subject: str) -> None:
    recorder, graph, own = recorded(gate, world)
    asked = request(BoxKey.generate(), run or own, "message", subject)
    assert content.answer(recorder, graph, asked) == "not_found"
    assert list(gate.answers.values()) == [{"problem": "not_found"}]


def test_it_does_not_show_a_later_message_at_an_earlier_checkpoint(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    last = gate.of(run, "message")[-1]["message"]
    first = gate.of(run, "checkpoint")[0]["checkpoint"]
    asked = request(BoxKey.generate(), run, "message", last, first)
    assert content.answer(recorder, graph, asked) == "not_found"


def wait_for(condition: Any) -> None:
    assert comes(condition), "it did not come about"


def test_it_serves_permits_and_content_in_one_poll(
    gate: Gate, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    recorder, graph, run = recorded(gate, world)
    envelope = gate.permit(checkpoint=gate.of(run, "checkpoint")[2])
    box = BoxKey.generate()
    gate.permits.append(envelope)
    gate.content.append(request(box, run, "message", gate.of(run, "message")[0]["message"]))
    serving = Serving(recorder, graph, wait=0)

    def stop_when_done() -> None:
        wait_for(lambda: gate.answers and gate.of(claims_of(envelope)["branch"], "recording_closed"))
        serving.stop()

    import threading

    watcher = threading.Thread(target=stop_when_done)
    watcher.start()
    serving.run()
    watcher.join()
    assert opened(gate, box) == f"please {MARKER}"
    assert MARKER not in caplog.text
    assert "branch: natural_finish" in caplog.text


GRAPH = """
from pathlib import Path
from tests.recorder.team import CONFIGURATION, World, build as made, install_probes
install_probes()
def build(recorder):
    recorder.declare(CONFIGURATION)
    return made(recorder, World(Path({folder!r})))
"""


def test_it_runs_from_the_command_line_and_ends_on_sigterm(gate: Gate, world: World) -> None:
    recorder, _, run = recorded(gate, world)
    recorder.close()
    world.recorders.clear()
    (world.folder / "own_graph.py").write_text(GRAPH.format(folder=str(world.folder)))
    (world.folder / "token").write_text("secret-token\n")
    command = [
        *(sys.executable, "-m", "debugger.recorder.cli", "run", "--graph", "own_graph:build"),
        *("--home", str(world.home), "--server", gate.url, "--token-file", str(world.folder / "token")),
        *("--workflow", "desk-team", "--version", "1.0.0", "--targets", str(world.targets)),
    ]
    paths = f"{Path.cwd()}{os.pathsep}{world.folder}"
    envelope = gate.permit(checkpoint=gate.of(run, "checkpoint")[2])
    gate.permits.append(envelope)
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.PIPE
    ) as program:
        try:
            wait_for(lambda: gate.of(claims_of(envelope)["branch"], "recording_closed"))
        finally:
            program.send_signal(signal.SIGTERM)
        _, log = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0
    assert MARKER.encode() not in log
    assert b"natural_finish" in log


def test_it_pairs_and_shows_its_status_from_the_command_line(
    gate: Gate, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    token = world.folder / "token"
    token.write_text("secret-token")
    shared = ["--home", str(world.home)]
    assert cli.main(["pair", *shared, "--server", gate.url, "--token-file", str(token)]) == 0
    assert cli.main(["status", *shared]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[0]["recorder"] == said[1]["recorder"]
    assert said[1]["refused"] == 0


def test_it_says_so_when_the_server_is_away_or_says_no(world: World, gate: Gate) -> None:
    token = world.folder / "token"
    token.write_text("wrong")
    shared = ["pair", "--home", str(world.home), "--token-file", str(token), "--server"]
    assert cli.main([*shared, "http://127.0.0.1:9"]) == 1
    assert cli.main([*shared, gate.url]) == 1


def test_it_refuses_a_server_that_shows_another_key(
    world: World, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    from branches.evidence.signing import Signer
    from debugger.recorder.conformance import gate as gate_module

    token = world.folder / "token"
    token.write_text("secret-token")
    shared = ["pair", "--home", str(world.home), "--token-file", str(token), "--server", gate.url]
    assert cli.main(shared) == 0
    monkeypatch.setattr(gate_module, "SIGNER", Signer(b"y" * 32))
    assert cli.main(shared) == 1


def test_it_lists_the_values_of_the_memory_by_name_and_shows_one_exactly(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    checkpoint = gate.of(run, "checkpoint")[3]["checkpoint"]
    box = BoxKey.generate()
    assert (
        content.answer(recorder, graph, request(box, run, "values", "agent_memory", checkpoint)) == "sealed"
    )
    listed = {each["channel"]: each for each in json.loads(opened(gate, box))}
    assert listed["messages"]["problem"] == "value_is_messages"
    ticket = listed["ticket"]
    assert ticket == {"channel": "ticket", "target": KEY.digest("channel", "ticket"), "problem": None}
    gate.answers.clear()
    assert (
        content.answer(recorder, graph, request(box, run, "value", ticket["target"], checkpoint)) == "sealed"
    )
    held = graph.get_state({"configurable": {"thread_id": "t-1"}}).values["ticket"]
    assert json.loads(opened(gate, box)) == held


def test_it_shows_no_value_that_is_not_there_or_that_json_would_change(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    checkpoint = gate.of(run, "checkpoint")[3]["checkpoint"]
    for channel in ("absent", "messages"):
        asked = request(BoxKey.generate(), run, "value", KEY.digest("channel", channel), checkpoint)
        assert content.answer(recorder, graph, asked) == "not_found"
