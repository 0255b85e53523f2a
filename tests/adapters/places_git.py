"""A bare repository that a work tree pushes to, by its path and behind git's own HTTP backend."""

import os
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from branches.ports import Target
from tests.adapters.places import MARKER, Web, git, target

REF = "refs/heads/agent/{operation_key}"


class Forge:
    """A bare repository that a work tree pushes to."""

    def __init__(self, folder: Path) -> None:
        self.tree, self.bare = folder / "tree", folder / "bare.git"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.bare))
        git(folder, "init", "-q", "-b", "main", str(self.tree))
        self.first = self.commit("first")
        self.push("main")

    def commit(self, content: str, trailer: str = "") -> str:
        (self.tree / "note.md").write_text(f"{content} {MARKER}")
        git(self.tree, "add", "-A")
        git(self.tree, "commit", "-q", "-m", f"{content} {MARKER}\n\n{trailer}")
        return git(self.tree, "rev-parse", "HEAD").strip()

    def push(self, name: str, *options: str) -> None:
        git(self.tree, "push", "-q", *options, str(self.bare), f"HEAD:refs/heads/{name}")

    def target(self, **changes: Any) -> Target:
        options = {"remote": str(self.bare), "ref": REF, **changes}
        return target(**{name: value for name, value in options.items() if value is not None})


def host(forge: Forge) -> Web:
    """Serve the repository's folder over HTTP; skips where the backend is not on this machine."""
    backend = Path(subprocess.check_output(["git", "--exec-path"], text=True).strip()) / "git-http-backend"
    if not backend.exists():
        pytest.skip("git-http-backend is not on this machine")
    web = Web(lambda request: through(backend, forge, request))
    routes: Any = web.server.RequestHandlerClass
    routes.do_POST = routes.do_GET
    return web


def through(
    backend: Path, forge: Forge, request: BaseHTTPRequestHandler
) -> tuple[int, list[tuple[str, str]], bytes]:
    path, _, query = request.path.partition("?")
    length = int(request.headers.get("Content-Length") or 0)
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_PROJECT_ROOT": str(forge.bare.parent),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": path,
        "QUERY_STRING": query,
        "REQUEST_METHOD": request.command,
        "CONTENT_TYPE": request.headers.get("Content-Type") or "",
        "CONTENT_LENGTH": str(length),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol") or "",
        "REMOTE_ADDR": "127.0.0.1",
    }
    done = subprocess.run(
        [str(backend)], env=environment, input=request.rfile.read(length), capture_output=True, check=True
    )
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    headers = [tuple(line.decode().split(": ", 1)) for line in head.split(b"\r\n")]
    status = next((int(value[:3]) for name, value in headers if name == "Status"), 200)
    return status, [(name, value) for name, value in headers if name != "Status"], body
