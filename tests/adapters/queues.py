"""A real Redis for the queue probe: a key of its own, and how it is measured."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis as client

from branches.ports import StateMeasurement
from debugger.adapters.probes.queue import QueueProbe
from tests.adapters.places import MARKER, MOMENT, target
from tests.adapters.wire import REDIS, REDIS_DATABASE


@pytest.fixture
def server() -> Iterator[Any]:
    made = client.Redis(*REDIS, db=REDIS_DATABASE, socket_timeout=60)
    try:
        made.ping()
    except client.ConnectionError:
        pytest.skip("no Redis on 127.0.0.1:6379")
    yield made
    made.close()


@pytest.fixture
def name(server: Any) -> Iterator[str]:
    made = f"branchgate:probe:{MARKER}:{uuid4().hex}"
    yield made
    server.delete(made, f"{made}:other")


def measured(name: str, *, port: int = REDIS[1], **options: Any) -> StateMeasurement:
    url = f"redis://127.0.0.1:{port}/{REDIS_DATABASE}"
    return QueueProbe().measure(target(**{"url": url, "name": name, "allow": "loopback"} | options), MOMENT)


def problem(name: str, **options: Any) -> str | None:
    found = measured(name, **options)
    assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
    return found.problem


def fill(server: Any, name: str) -> None:
    """A stream of three, of which one consumer holds one and another holds one."""
    for number in range(1, 4):
        server.xadd(name, {"task": f"{MARKER}-{number}"}, id=f"{number}-0")
    server.xgroup_create(name, "workers", id="0")
    server.xreadgroup("workers", f"first-{MARKER}", {name: ">"}, count=1)
    server.xreadgroup("workers", "second", {name: ">"}, count=1)
