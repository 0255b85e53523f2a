"""The product's web server as it is started in production, one worker with eight threads."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from debugger.supervisor import free_port, wait_for


@contextmanager
def serving(token: str) -> Iterator[httpx.Client]:
    """Serve the measured database, and yield a client that may write."""
    port = free_port()
    server = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "debugger.wsgi:application", "--bind", f"127.0.0.1:{port}"),
            *("--workers", "1", "--threads", "8", "--worker-class", "gthread", "--no-control-socket"),
            *("--log-level", "warning"),
        ],
    )
    try:
        headers = {"Authorization": f"Bearer {token}"}
        base = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=base, headers=headers, timeout=60, trust_env=False) as client:
            ready = wait_for(lambda: _answers(client), seconds=30, alive=lambda: server.poll() is None)
            assert ready, "the server did not start"
            yield client
    finally:
        server.terminate()
        server.wait()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/api/v1/schemas").status_code == 200
    except httpx.HTTPError:
        return False
