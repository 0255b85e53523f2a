"""The command line of the four classifiers: one object a line, in order, and exit codes to rely on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rule_cases import FIXTURES, KINDS, complete, fixtures, judge

ROOT = Path(__file__).parents[2]
GOOD = json.dumps(complete("stops"))


@pytest.fixture
def environment(tmp_path):
    """No database to reach and a folder of its own, so that nothing but the file can matter."""
    return {
        **os.environ,
        "BRANCHGATE_VAR": str(tmp_path / "var"),
        "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none",
    }


def classify(environment, *arguments, lines=None):
    """Run the command; lines are bytes for standard input."""
    return subprocess.run(
        [sys.executable, "manage.py", "classify", *arguments],
        cwd=ROOT,
        env=environment,
        input=lines,
        capture_output=True,
        timeout=300,
        check=False,
    )


def printed(result):
    return [json.loads(line) for line in result.stdout.split(b"\n") if line]


@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_one_verdict_a_line_and_exits_0(environment, kind):
    result = classify(environment, kind, str(FIXTURES / f"{kind}.jsonl"))
    assert (result.returncode, result.stderr) == (0, b"")
    assert printed(result) == [judge(kind, case) for case in fixtures(kind)]


def test_it_goes_on_after_a_line_in_error_and_exits_1(environment):
    bad = json.dumps(complete("stops") | {"sdk": 7})
    lines = f"{bad}\n\n{GOOD}\n{{\n{GOOD}\n".encode() + b"\xff\n" + GOOD.encode()
    result = classify(environment, "stops", "-", lines=lines)
    assert (result.returncode, result.stderr) == (1, b"")
    fields = [found.get("error", {"field": "none"})["field"] for found in printed(result)]
    assert fields == ["sdk", "none", None, "none", None, "none"]


def test_it_finds_nothing_wrong_with_an_empty_file(environment):
    result = classify(environment, "stops", "-", lines=b"\n  \n")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"", b"")


def test_it_exits_2_with_a_message_and_no_traceback_when_the_file_cannot_be_read(environment, tmp_path):
    for unreadable in (tmp_path / "absent.jsonl", tmp_path):
        result = classify(environment, "stops", str(unreadable))
        assert (result.returncode, result.stdout) == (2, b"")
        assert result.stderr
        assert b"Traceback" not in result.stderr


def test_it_exits_2_for_a_kind_it_does_not_know(environment):
    result = classify(environment, "siblings", "-", lines=b"")
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"Traceback" not in result.stderr


def test_it_answers_a_line_before_the_next_one_is_written(environment):
    with subprocess.Popen(
        [sys.executable, "manage.py", "classify", "stops", "-"],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as running:
        for _ in range(2):
            running.stdin.write(GOOD.encode() + b"\n")
            running.stdin.flush()
            assert json.loads(running.stdout.readline()) == judge("stops", complete("stops"))
        running.stdin.close()
        assert running.wait(timeout=300) == 0


def test_it_ends_quietly_when_nobody_reads_on(environment, tmp_path):
    many = tmp_path / "many.jsonl"
    many.write_text(f"{GOOD}\n" * 3_000)
    with subprocess.Popen(
        [sys.executable, "manage.py", "classify", "stops", str(many)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        running.stdout.readline()
        running.stdout.close()
        assert running.stderr.read() == b""
        assert running.wait(timeout=300) != 0
