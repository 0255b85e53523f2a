"""The command `branchgate-recorder`: pair, status, run, conform."""

import argparse
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from debugger.recorder import pairing
from debugger.recorder.client import Client, GateRefused, GateUnreachable
from debugger.recorder.conformance import run_suite
from debugger.recorder.conformance.subject import Unavailable
from debugger.recorder.conformance.subjects import SUBJECTS, subject_of
from debugger.recorder.names import RuntimeDiffers
from debugger.recorder.recorder import Recorder, runtime_version
from debugger.recorder.serving import Serving

_log = logging.getLogger("branchgate.recorder")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 0, 1 when the server said no or was not there, 2 for wrong arguments."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        return int(options.do(options))
    except GateRefused as error:
        _log.error("refused: %s", error.rule)
    except RuntimeDiffers as error:
        _log.error("refused: %s", error)
    except GateUnreachable:
        _log.error("server: unreachable")
    except pairing.ServerKeyChanged:
        _log.error("server_key: not the one pinned at pairing")
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="branchgate-recorder", description="Records agent runs and runs branches."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--home", type=Path, required=True, help="folder for keys, spool and journal")
    server = argparse.ArgumentParser(add_help=False)
    server.add_argument("--server", required=True, help="address of the server")
    server.add_argument("--token-file", type=Path, required=True, help="file that holds the token")
    server.add_argument("--name", default="recorder", help="this recorder's name")
    pair = commands.add_parser("pair", parents=[shared, server], help="pair this home with a server")
    pair.set_defaults(do=_pair)
    status = commands.add_parser("status", parents=[shared], help="show what waits here, offline")
    status.set_defaults(do=_status)
    run = commands.add_parser("run", parents=[shared, server], help="serve a graph until stopped")
    run.add_argument(
        "--graph", required=True, metavar="MODULE:NAME", help="a compiled graph, or build(recorder)"
    )
    run.add_argument("--workflow", required=True)
    run.add_argument("--version", required=True)
    run.add_argument("--targets", type=Path, help="JSON file of probe targets")
    run.add_argument("--context", metavar="MODULE:NAME", help="factory of the graph's context for a resume")
    run.set_defaults(do=_run)
    conform = commands.add_parser(
        "conform", parents=[shared, server], help="try this runtime's recorder, and report what it kept"
    )
    conform.add_argument("--runtime", required=True, choices=sorted(SUBJECTS))
    conform.add_argument(
        "--background", action="store_true", help="say nothing, and give way to whatever else runs here"
    )
    conform.set_defaults(do=_conform)
    return parser


def _pair(options: argparse.Namespace) -> int:
    options.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    client = Client(options.server, _token(options.token_file))
    identity = pairing.pair(options.home, client, name=options.name, runtime=runtime_version())
    print(json.dumps({"recorder": identity.recorder, "workspace": identity.workspace}))
    return 0


def _status(options: argparse.Namespace) -> int:
    home: Path = options.home
    identity = pairing.paired(home)
    refused = home / "refused.ndjson"
    found = {
        "recorder": None if identity is None else identity.recorder,
        "segments": len(list((home / "spool").glob("*.seg"))),
        "refused": refused.read_bytes().count(b"\n") if refused.exists() else 0,
        "branches": len(list((home / "branches").glob("*.journal"))),
    }
    print(json.dumps(found))
    return 0


def _run(options: argparse.Namespace) -> int:
    recorder = Recorder.open(
        options.home,
        server=options.server,
        token=_token(options.token_file),
        workflow=options.workflow,
        version=options.version,
        targets=options.targets,
        name=options.name,
    )
    try:
        graph = _named(options.graph)
        if not hasattr(graph, "stream"):
            graph = graph(recorder)
        context: Callable[[], Any] = _named(options.context) if options.context else lambda: None
        serving = Serving(recorder, graph, context=context)
        _stop_on_signals(serving)
        hidden = recorder.topology(graph).unknown
        _log.info("serving; nodes with a hidden part: %d", len(hidden))
        serving.run()
        recorder.flush(10)
    finally:
        recorder.close()
    return 0


def _conform(options: argparse.Namespace) -> int:
    """Try the recorder against a gate that misbehaves, then say at the real one what it kept."""
    if options.background:
        os.nice(10)
    # What the suite provokes is no news: its gate refuses, and is gone, on purpose.
    logging.disable(logging.CRITICAL)
    try:
        report = run_suite(subject_of(options.runtime))
    except Unavailable as error:
        print(
            f"{error}: not installed here, or in a version that the recorder does not know", file=sys.stderr
        )
        return 2
    finally:
        logging.disable(logging.NOTSET)
    if not options.background:
        for each in report.outcomes:
            print(f"{'kept  ' if each.kept else 'BROKEN'} {each.name} {each.word}".rstrip())
    options.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    client = Client(options.server, _token(options.token_file))
    runtime = {"name": report.runtime, "version": report.version}
    pairing.pair(options.home, client, name=options.name, runtime=runtime)
    client.report_conformance(report.as_json())
    return 0 if not report.failed else 1


def _stop_on_signals(serving: Serving) -> None:
    def stop(_number: int, _frame: FrameType | None) -> None:
        serving.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)


def _token(path: Path) -> str:
    return path.read_text().strip()


def _named(place: str) -> Any:
    module, _, name = place.partition(":")
    sys.path.insert(0, "")
    return getattr(importlib.import_module(module), name)


if __name__ == "__main__":
    sys.exit(main())
