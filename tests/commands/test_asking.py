"""The asking commands as a script meets them: one object out, and an exit that says which of four it is."""

import json
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.core.management import call_command

from debugger.asking import Exit

ROOT = Path(__file__).resolve().parents[2]
MARKER = "CONTENT-MARKER-7f3a"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], int]:
    """Run a command in this process; returns what it printed and its exit."""
    end = 0
    try:
        call_command(*arguments)
    except SystemExit as error:
        end = int(error.code or 0)
    said = capsys.readouterr()
    assert said.err == ""
    return json.loads(said.out), end


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *command],
            cwd=tmp_path,
            check=True,
            timeout=300,
        )
    return tmp_path


@pytest.fixture
def tickets() -> Any:
    """A destination that holds one ticket, and fails for one key."""

    class Tickets(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            key = self.path.rpartition("/")[2]
            status = {"held": 200, "broken": 500}.get(key, 404)
            body = json.dumps({"key": key, "version": 7, "kind": "report", "text": MARKER}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Tickets)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_it_measures_and_compares_with_what_is_expected(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    target = json.dumps({"path": str(repository)})
    said, end = run(capsys, "probe", "git_workspace", "--target", target)
    assert (said["result"], end) == ("measured", Exit.YES)
    assert {"fingerprint", "facts", "limits"} <= said.keys()
    again = run(capsys, "probe", "git_workspace", "--target", target, "--expect", said["fingerprint"])
    assert (again[0]["result"], again[1]) == ("matched", Exit.YES)
    (repository / "new.txt").write_text(MARKER)
    drifted = run(capsys, "probe", "git_workspace", "--target", target, "--expect", said["fingerprint"])
    assert (drifted[0]["result"], drifted[1]) == ("drifted", Exit.NO)
    assert MARKER not in json.dumps(drifted)


def test_its_fingerprints_are_the_same_in_another_process(
    capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    target = json.dumps({"path": str(repository)})
    command = [sys.executable, "manage.py", "probe", "git_workspace", "--target", target]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    assert json.loads(ended.stdout) == run(capsys, "probe", "git_workspace", "--target", target)[0]


def test_what_cannot_be_reached_is_neither_yes_nor_no(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said, end = run(
        capsys, "probe", "git_workspace", "--target", json.dumps({"path": str(tmp_path / "gone")})
    )
    assert (said["result"], said["fingerprint"], end) == ("unreachable", None, Exit.UNKNOWN)


@pytest.mark.parametrize(
    ("key", "answer", "end"),
    [("held", "present", Exit.YES), ("gone", "absent", Exit.NO), ("broken", "unknown", Exit.UNKNOWN)],
)
def test_it_asks_a_destination_by_key(
    capsys: pytest.CaptureFixture[str], tickets: str, key: str, answer: str, end: Exit
) -> None:
    target = json.dumps({"url": f"{tickets}/{{operation_key}}", "absent": [404], "version": "version"})
    said, code = run(capsys, "ask", "http_json", "--target", target, "--key", key)
    assert (said["answer"], code) == (answer, end)
    assert MARKER not in json.dumps(said)


@pytest.mark.parametrize(
    ("path", "expected", "baseline", "result", "end"),
    [
        ("held", {"kind": "report"}, None, "verified", Exit.YES),
        ("held", {"kind": "report"}, "6", "verified", Exit.YES),
        ("held", {"kind": "report"}, "7", "failed", Exit.NO),
        ("held", {"kind": "draft"}, None, "failed", Exit.NO),
        ("broken", {"kind": "report"}, None, "unreachable", Exit.UNKNOWN),
    ],
)
def test_it_asks_for_an_outcome(
    capsys: pytest.CaptureFixture[str],
    tickets: str,
    path: str,
    expected: dict[str, str],
    baseline: str | None,
    result: str,
    end: Exit,
) -> None:
    target = json.dumps({"latest_url": f"{tickets}/{path}", "version": "version"})
    given = ["verify_outcome", "http_json", "--target", target, "--expect", json.dumps(expected)]
    said, code = run(capsys, *given, *(() if baseline is None else ("--baseline", baseline)))
    assert (said["result"], code) == (result, end)
    assert MARKER not in json.dumps(said)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("probe", "git_workspace"), "--target"),
        (("probe", "git_workspace", "--target", f"{{{MARKER}"), "target: json"),
        (("probe", "git_workspace", "--target", "[]"), "target: object"),
        (("probe", "git_workspace", "--target", '{"path": 1, "path": 2}'), "target: json"),
        (("probe", "git_workspace", "--target", "{}"), "target.path: path"),
        (("probe", MARKER, "--target", "{}"), "name: one of"),
        (
            ("ask", "http_json", "--target", '{"url": "http://a/{operation_key}"}', "--key", ""),
            "key: required",
        ),
        (("ask", "http_json", "--target", '{"url": "http://a/"}', "--key", "k"), "target.url: operation_key"),
        (("verify_outcome", "http_json", "--target", "{}", "--expect", "7"), "expect: object"),
        (("probe", "git_workspace", "--target", "{}", MARKER), "arguments: unrecognized"),
    ],
)
def test_bad_input_is_named_by_field_and_rule_and_not_echoed(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
) -> None:
    said, end = run(capsys, *arguments)
    assert end == Exit.BAD_INPUT
    assert words in said["error"]
    assert MARKER not in said["error"]
