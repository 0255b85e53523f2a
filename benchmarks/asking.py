"""What it costs to ask: a thousand operations of one branch at a real HTTP server, through the jobs."""

import json
import resource
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from benchmarks.world import VAR

OPERATIONS = 1_000


class Desk(BaseHTTPRequestHandler):
    """Answers every question with one ticket."""

    def do_GET(self) -> None:
        body = b'{"number": 7, "version": 1}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def measure(world: Any) -> dict[str, Any]:
    """Return seconds and peak memory of asking for all, and how progress was seen to grow."""
    from django.conf import settings

    from branches.commands.run_job import run_job
    from branches.models import Job, JobState, Receipt

    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/{{operation_key}}"
    place = {"url": url, "version": "version", "allow": "loopback", "per_second": 10**6}
    settings.BRANCHGATE_TARGETS = VAR / "targets.json"
    settings.BRANCHGATE_TARGETS.write_text(json.dumps({"tickets": place}))
    branch, operations = _branch(world)
    began = time.perf_counter()
    uids = [_ask(world, branch, operation) for operation in operations]
    asked = time.perf_counter() - began
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    for uid in uids:
        run_job(uid=uid)
    took = time.perf_counter() - began
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    server.shutdown()
    answered = Receipt.objects.filter(run=branch, kind="effect_asked").count()
    assert answered == OPERATIONS, answered
    assert not Job.objects.filter(uid__in=uids).exclude(state=JobState.DONE).exists()
    return {
        "operations": OPERATIONS,
        "jobs made, s": asked,
        "asked and recorded one by one, s": took,
        "a question, ms": took * 1000 / OPERATIONS,
        "memory grown meanwhile, MB": grown / 1024,
    }


def _branch(world: Any) -> tuple[Any, list[str]]:
    """Return a branch with a thousand operations after its checkpoint."""
    from branches.commands.fork_branch import fork_branch
    from branches.commands.publish_workflow import publish_workflow
    from branches.evidence import ids
    from branches.models import Run
    from tests import builders

    declared = builders.declaration(version="2.0.0")
    declared["destinations"]["tickets"]["query"] = "http_json"
    uid = ids.mint("run")
    workflow = publish_workflow(
        workspace=world.workspace, publisher=world.workspace.uid, declaration=declared
    )
    start = builders.run_started(world, uid, workflow=workflow.uid, workflow_version=workflow.version)
    world.ingest(start, builders.checkpoint(world, uid, "c1"))
    for first in range(0, OPERATIONS, 100):
        batch: list[dict[str, Any]] = []
        for number in range(first, first + 100):
            batch += builders.effect(world, uid, f"operation{number}", "create_ticket", "c1")
        assert not world.ingest(*batch).refused
    branch = fork_branch(
        person=world.ada,
        parent=Run.objects.get(uid=uid),
        checkpoint=world.checkpoint("c1"),
        reason_code="experiment",
        edit_class="other",
    )
    return branch, [world.operation(f"operation{number}") for number in range(OPERATIONS)]


def _ask(world: Any, branch: Any, operation: str) -> str:
    from branches.commands.ask_for_job import ask_for_job
    from branches.models import JobKind

    job = ask_for_job(
        workspace=world.workspace,
        kind=JobKind.ASK_DESTINATION,
        run=branch,
        subject=operation,
        asked_by=world.ada.uid,
    )
    return str(job.uid)
