"""Run the demo world: a real team that failed, and everything needed to take a branch of it."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections

from debugger.demo.admission import admit_demo, holds_more_than_the_demo, recorder_has_conformed
from debugger.demo.kept import AlreadyRunning, keep_run, kept_run, kept_world, only_demo
from debugger.demo.layout import DemoWorld
from debugger.demo.walk import walk
from debugger.demo.walker import WalkFailed
from debugger.demo.world import (
    TeamRun,
    conformance_program,
    desk_program,
    lay_out,
    recorder_program,
    run_team,
)
from debugger.startup import prepare
from debugger.supervisor import (
    PortBusy,
    Supervisor,
    check_port,
    free_port,
    wait_for,
    web_program,
    worker_program,
)


class Command(BaseCommand):
    help = "Make the demo world, run its team once, and serve it until Ctrl-C; or walk it and exit."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=None, help="8000; a free one with --walk")
        parser.add_argument("--fresh", action="store_true", help="start over")
        parser.add_argument(
            "--walk", action="store_true", help="do the whole job as the demo people and exit"
        )

    def handle(self, *_args: Any, **options: Any) -> None:
        host: str = options["host"]
        if host not in {"127.0.0.1", "localhost", "::1"}:
            raise CommandError("host: the demo signs in with one click, so it serves the loopback only")
        port = options["port"] or (free_port(host) if options["walk"] else 8000)
        try:
            check_port(host, port)
        except PortBusy as busy:
            raise CommandError(str(busy)) from None
        try:
            with only_demo(settings.BRANCHGATE_VAR):
                code = self._serve(host, port, fresh=options["fresh"], walks=options["walk"])
        except AlreadyRunning:
            raise CommandError(
                "a demo already runs on this folder; set BRANCHGATE_VAR to another one"
            ) from None
        if code:
            sys.exit(code)

    def _serve(self, host: str, port: int, *, fresh: bool, walks: bool) -> int:
        if fresh:
            self._start_over()
        settings.BRANCHGATE_DEMO = True
        prepare()
        return self._run(host, port, walks=walks)

    def _start_over(self) -> None:
        """Remove what the demo made; on a database server its rows stay, append-only, beside the new ones."""
        if holds_more_than_the_demo():
            raise CommandError(
                "fresh: this database holds more than the demo; set BRANCHGATE_VAR to another folder"
            )
        connections.close_all()
        for name in ("demo", "broker"):
            shutil.rmtree(settings.BRANCHGATE_VAR / name, ignore_errors=True)
        for path in settings.BRANCHGATE_VAR.glob("branchgate.sqlite3*"):
            path.unlink()
        for name in ("queue", "control", "done"):
            (settings.BRANCHGATE_VAR / "broker" / name).mkdir(parents=True, exist_ok=True)

    def _run(self, host: str, port: int, *, walks: bool) -> int:
        folder = settings.BRANCHGATE_VAR / "demo"
        world = self._world(folder)
        token = admit_demo(world)
        base = f"http://{host}:{port}"
        env = {
            "BRANCHGATE_DEMO": "1",
            # Beside the demo's own targets those of whoever connects something to it.
            "BRANCHGATE_TARGETS": os.pathsep.join((str(world.targets), settings.BRANCHGATE_TARGETS)),
            "BRANCHGATE_VAR": str(settings.BRANCHGATE_VAR),
        }
        with Supervisor() as supervisor:
            supervisor.start(desk_program(world))
            web = supervisor.start(web_program(host, port, env=env))
            supervisor.start(worker_program(env))
            ready = wait_for(
                lambda: _answers(f"{base}/accounts/login/"), seconds=60, alive=lambda: web.poll() is None
            )
            if not ready:
                raise CommandError("the web server did not start")
            wait_for(lambda: _answers(f"{world.desk_url}/reports/latest"), seconds=20, alive=lambda: True)
            # A walk needs a run that nobody has walked yet.
            run = self._new_run(world, base, token) if walks else self._team(world, base, token)
            supervisor.start(recorder_program(world, base))
            if walks:
                return self._walk(base, token, run)
            if not recorder_has_conformed():
                supervisor.start(conformance_program(world, base))
            self.stdout.write(
                f"\nBranchgate: {base}/  (Ada forks, Grace and Barbara approve, Rosa reviews; Ctrl-C stops)"
            )
            return supervisor.wait()

    def _world(self, folder: Path) -> DemoWorld:
        try:
            return kept_world(folder, sys.executable)
        except (OSError, ValueError):
            shutil.rmtree(folder, ignore_errors=True)
            return lay_out(folder, free_port(), sys.executable)

    def _team(self, world: DemoWorld, base: str, token: str) -> TeamRun:
        kept = kept_run(world)
        if kept is not None:
            return kept
        run = self._new_run(world, base, token)
        keep_run(world, run)
        return run

    def _new_run(self, world: DemoWorld, base: str, token: str) -> TeamRun:
        self.stdout.write("The team runs: it creates a ticket, sends a mail, and fails to publish …")
        run = run_team(world, base, token)
        if not run.delivered:
            raise CommandError("the recorder could not deliver the run's receipts")
        self.stdout.write(f"It stopped ({run.stop_cause}) and says it is done: {run.run}")
        return run

    def _walk(self, base: str, token: str, run: TeamRun) -> int:
        try:
            walk(base, token=token, run=run.run, brief=run.brief, say=self.stdout.write)
        except (WalkFailed, httpx.HTTPError, StopIteration) as error:
            self.stderr.write(f"The walk failed: {error!r}")
            return 1
        return 0


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5, trust_env=False).status_code < 500
    except httpx.HTTPError:
        return False
