"""Pieces of one trace for tests, and a program in which several web processes receive them at once."""

import json
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from django.test import Client

from branches.commands import import_source
from branches.commands.admit import issue_token, make_workspace
from branches.commands.publish_workflow import publish_workflow
from branches.models import EdgeCount, Receipt, Run, Workflow, Workspace
from branches.queries.audits import audits_json, audits_now
from branches.queries.clock import now
from branches.queries.receipts import verify_run
from debugger import intake
from tests.adapters.otlp_requests import ERROR, OK, PROTOBUF, Sent, agent, as_json, as_protobuf, chat, tool
from tests.builders import declaration
from tests.hostile.racing import race

REDIS: Final = os.environ.get("BRANCHGATE_TEST_REDIS", "redis://127.0.0.1:6379/9")
MARKER: Final = "CONTENT-MARKER-7f3a"
_LONG_ENOUGH_S: Final = 3.0
"""In it whoever is not made to wait gets through; that nobody gets through is what should be."""


def has_redis() -> bool:
    import redis

    try:
        return bool(redis.Redis.from_url(REDIS, socket_connect_timeout=1).ping())
    except redis.RedisError:
        return False


def a_trace(trace: int = 1, calls: int = 2, conversation: str | None = None, **root: Any) -> list[Sent]:
    """Return a loop that says it went well, of two agents; the last of the calls failed."""
    named = {} if conversation is None else {"gen_ai.conversation.id": conversation}
    own: dict[str, Any] = {"trace": trace, "attributes": {**named, "gen_ai.prompt": MARKER}}
    members = [
        tool(10 + n, 2, f"call-{n}", start=n + 2, end=n + 3, status=ERROR if n == calls - 1 else OK, **own)
        for n in range(calls)
    ]
    return [
        *members,
        chat(3, 2, start=1, end=2, status=OK, **own),
        agent(2, 1, "publisher", start=1, end=90, status=OK, **own),
        agent(1, 0, "orchestrator", start=0, end=99, **{"status": OK, **own, **root}),
    ]


def desk(name: str) -> tuple[Workspace, str, Workflow]:
    """Return a workspace with a token that may ingest, and a workflow whose contract has the trace's edge."""
    workspace = make_workspace(name=name)
    row, token = issue_token(workspace=workspace, name="tracer", scopes=["ingest"])
    contract = {
        "version": "1",
        "agents": ["orchestrator", "publisher"],
        "edges": [{"from": "orchestrator", "to": "publisher", "kind": "invoke"}],
        "phases": {"publish": ["orchestrator>publisher:invoke"]},
    }
    declared = declaration(contract=contract, phase="publish", kinds=["invoke"])
    return workspace, token, publish_workflow(workspace=workspace, publisher=row.uid, declaration=declared)


def post(token: str, *spans: Sent, media: str = PROTOBUF) -> Any:
    """Send spans in one request, as an exporter does."""
    body = as_protobuf(spans) if media == PROTOBUF else as_json(spans)
    headers = {"Authorization": f"Bearer {token}", "Host": "127.0.0.1"}
    return Client().post("/v1/traces", body, content_type=media, headers=headers)


def seen(workspace: Workspace) -> dict[str, Any]:
    """Return what is on record of a workspace's one run, apart from ids: its audits, facts and edges."""
    run = Run.objects.get(workspace=workspace)
    kinds = Counter(Receipt.objects.filter(run=run).values_list("kind", flat=True))
    del kinds["stopped"]  # each word about one end is kept, and the newest counts
    edges = EdgeCount.objects.filter(run=run).order_by("id").values_list("status", "count")
    chain = verify_run(run)
    return {
        "audits": audits_json(audits_now(run, now())),
        "kinds": dict(kinds),
        "edges": [list(edge) for edge in edges],
        "chain": chain.ok,
    }


def at_once() -> dict[str, Any]:
    """Have every span of a trace sent in a request of its own, all at once, each to another process."""
    whole, token, _ = desk("whole")
    post(token, *a_trace(calls=5))
    apart, token, _ = desk("apart")
    words = race([partial(_status, token, each) for each in a_trace(calls=5)])
    first = seen(apart)
    again = race([partial(_status, token, each) for each in a_trace(calls=5)])
    return {
        "words": sorted({*words, *again}),
        "same": first == seen(whole),
        "again": seen(apart) == first,
        "effects": first["kinds"]["effect_intended"],
    }


def talks_at_once() -> dict[str, Any]:
    """Have traces of two conversations sent at once, both in each request, in both orders."""
    workspace, token, _ = desk("talks")
    turns = []
    for number in range(4):
        talks = ["one", "two"] if number % 2 else ["two", "one"]
        spans = [each for at, talk in enumerate(talks) for each in a_trace(10 * number + at + 1, 1, talk)]
        turns.append(partial(_status, token, *spans))
    words = race(turns)
    return {"words": sorted(set(words)), **counted(workspace)}


def held_up_after_looking() -> dict[str, Any]:
    """Hold up the process that has the root once it has looked at what is kept; the rest comes to another."""
    whole, token, _ = desk("whole-held")
    post(token, *a_trace())
    apart, token, _ = desk("apart-held")
    *rest, root = a_trace()
    words = _held_up(intake, "_earlier", partial(_status, token, root), partial(_status, token, *rest))
    return {"words": words, "same": seen(apart) == seen(whole), "stops": seen(apart)["audits"]["stops"]}


def held_up_while_counting() -> dict[str, Any]:
    """Hold up one of two processes that go on with one conversation, once it has read what is on record."""
    workspace, token, _ = desk("counting")
    post(token, *a_trace(3, 1, "one"))
    acts = [partial(_status, token, *a_trace(number, 1, "one")) for number in (1, 2)]
    words = _held_up(import_source, "_on_record", *acts)
    return {"words": words, **counted(workspace)}


def held_up_as_the_first() -> dict[str, Any]:
    """Hold up one of two processes that take in a workspace's first traces, once it has made the importer."""
    workspace, token, _ = desk("first")
    acts = [partial(_status, token, *a_trace(number, 1)) for number in (1, 2)]
    words = _held_up(import_source, "_made_importer", *acts)
    for number in (1, 2):
        post(token, *a_trace(number, 3))
    return {"words": words, **counted(workspace)}


def counted(workspace: Workspace) -> dict[str, Any]:
    """Return how many runs and calls are on record, and whether each run's writer counted without gaps."""
    runs = Run.objects.filter(workspace=workspace)
    numbers = [
        sorted(json.loads(body)["writer_seq"] for body in bodies)
        for run in runs
        for bodies in [Receipt.objects.filter(run=run).values_list("body", flat=True)]
    ]
    return {
        "runs": len(runs),
        "effects": Receipt.objects.filter(run__in=runs, kind="effect_intended").count(),
        "gapless": all(found == list(range(1, len(found) + 1)) for found in numbers),
    }


def _held_up(module: Any, name: str, first: Callable[[], int], second: Callable[[], int]) -> list[str]:
    """Perform two acts; the first stands at the end of a function until the other is through."""
    forking = multiprocessing.get_context("fork")
    there, through = forking.Event(), forking.Event()
    real = getattr(module, name)

    def stands(*arguments: Any) -> Any:
        found = real(*arguments)
        there.set()
        through.wait(_LONG_ENOUGH_S)
        return found

    def one() -> int:
        setattr(module, name, stands)
        return first()

    def other() -> int:
        there.wait(60)
        try:
            return second()
        finally:
            through.set()

    return race([one, other])


def _status(token: str, *spans: Sent) -> int:
    """Post from a process that has a shelf of its own."""
    intake.shelf.cache_clear()
    return int(post(token, *spans).status_code)
