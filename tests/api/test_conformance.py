"""What a recorder kept of its promises: its own word, taken by the API, and what a page says of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import issue_token
from branches.evidence.kinds.workspace import MOST_CHECKS
from branches.models import Recorder, Run, WorkspaceReceipt
from branches.queries.conformance import REQUIRED, conformance_of
from branches.queries.workspace_chain import verify_workspace
from debugger.recorder.conformance.suite import CHECKS, SUITE
from tests import worlds
from tests.builders import World, failed_run, make_world
from tests.js.served import served
from tests.plugins import FakeWorld
from tests.web.cast import forked, signed_in

KEPT = sorted(REQUIRED)
MARKER = "CONTENT-MARKER-7f3a"


def report(**changed: Any) -> dict[str, Any]:
    said = {"runtime": "langgraph", "runtime_version": "1.2.24", "suite": SUITE, "passed": KEPT, "failed": []}
    return {**said, **changed}


def ask(token: str | None, body: Any) -> Any:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    sent = body if isinstance(body, str) else json.dumps(body)
    path = "/api/v1/recorders/conformance"
    return Client().post(path, sent, content_type="application/json", headers=headers)


def reports() -> list[WorkspaceReceipt]:
    return list(WorkspaceReceipt.objects.filter(kind="recorder_conformed").order_by("id"))


@pytest.fixture
def branch(world: World, outside: FakeWorld) -> Run:
    return forked(world, failed_run(world))


def page(world: World, branch: Run) -> str:
    return " ".join(signed_in(world.ada).get(f"/branches/{branch.uid}/").content.decode().split())


def test_the_suite_and_the_page_know_the_same_checks() -> None:
    assert set(CHECKS) == REQUIRED


def test_a_report_stands_on_the_workspaces_chain_as_the_recorders_word(world: World) -> None:
    assert ask(world.token, report()).json() == {"ok": True}
    [row] = reports()
    assert (row.writer, row.subject) == (world.recorder.uid, world.recorder.uid)
    assert json.loads(row.body)["body"] == {"recorder": world.recorder.uid, **report()}
    assert verify_workspace(world.workspace).ok


def test_it_takes_a_token_that_may_redeem_and_that_somebody_paired_with(world: World) -> None:
    _, wrong = issue_token(workspace=world.workspace, name="wrong", scopes=["ingest", "read", "outcome"])
    assert [ask(token, report()).status_code for token in (None, "bgt_unknown", wrong)] == [401, 401, 401]
    _, alone = issue_token(workspace=world.workspace, name="alone", scopes=["redeem"])
    answer = ask(alone, report())
    assert (answer.status_code, answer.json()["error"]["rule"]) == (409, "not_paired")
    assert reports() == []


def test_another_workspaces_token_speaks_of_its_own_recorder_only(world: World) -> None:
    other = make_world("elsewhere")
    assert ask(other.token, report()).status_code == 200
    [row] = reports()
    assert (row.workspace_id, row.subject) == (other.workspace.pk, other.recorder.uid)
    assert not conformance_of(world.recorder).is_shown
    assert conformance_of(other.recorder).is_shown


@pytest.mark.parametrize(
    ("changed", "field", "rule"),
    [
        ({"runtime": MARKER + "!"}, "runtime", "pattern"),
        ({"runtime_version": f"{MARKER}?"}, "runtime_version", "pattern"),
        ({"suite": ""}, "suite", "pattern"),
        ({"passed": [f"{MARKER} was here"]}, "passed", "pattern:word"),
        ({"failed": ["a-b"]}, "failed", "pattern:word"),
        ({"passed": [f"check_{number}" for number in range(MOST_CHECKS + 1)]}, "passed", "too_long"),
        ({"passed": [], "failed": []}, "passed", "disjoint"),
        ({"failed": KEPT[:1]}, "passed", "disjoint"),
        ({"passed": "all"}, "passed", ""),
        ({"passed": [7]}, "passed", ""),
        ({"runtime": "x" * 97}, "runtime", ""),
        ({"more": MARKER}, "", "extra_forbidden"),
    ],
)
def test_what_is_no_report_is_refused_by_field_and_rule(
    world: World, changed: dict[str, Any], field: str, rule: str
) -> None:
    answer = ask(world.token, report(**changed))
    error = answer.json()["error"]
    assert answer.status_code in (400, 409, 422)
    assert field in error["field"]
    assert error["rule"].startswith(rule)
    assert error["rule"]
    assert MARKER not in answer.content.decode()
    assert reports() == []


@pytest.mark.parametrize("body", ["", "[]", "{", f'{{"passed": "{MARKER}"'])
def test_what_cannot_be_read_is_refused(world: World, body: str) -> None:
    answer = ask(world.token, body)
    assert answer.status_code in (400, 422)
    assert MARKER not in answer.content.decode()


def test_the_page_says_nothing_of_permits_before_there_is_a_report(world: World, branch: Run) -> None:
    text = page(world, branch)
    assert "Its recorder has not run the conformance suite, so nothing is said of its permits." in text
    assert "cannot be bypassed" not in text


def test_a_report_of_another_version_says_nothing_of_this_one(world: World, branch: Run) -> None:
    ask(world.token, report(runtime_version="1.2.23"))
    text = page(world, branch)
    assert "The conformance suite ran with version 1.2.23, not with 1.2.24." in text
    assert "cannot be bypassed" not in text


@pytest.mark.parametrize(
    "changed",
    [{"passed": KEPT[1:], "failed": KEPT[:1]}, {"passed": KEPT[1:]}, {"passed": [*KEPT[1:], "kindness"]}],
)
def test_one_promise_that_was_not_kept_or_not_tried_is_one_too_few(
    world: World, branch: Run, changed: dict[str, Any]
) -> None:
    ask(world.token, report(**changed))
    text = page(world, branch)
    assert "Its recorder kept 13 of 14 promises of the conformance suite." in text
    assert "cannot be bypassed" not in text


def test_a_check_that_failed_beside_all_of_ours_is_one_too_many(world: World, branch: Run) -> None:
    ask(world.token, report(failed=["kindness"]))
    assert "cannot be bypassed" not in page(world, branch)


def test_all_kept_is_said_with_what_it_does_not_cover_and_whose_word_it_is(world: World, branch: Run) -> None:
    ask(world.token, report(passed=KEPT[:3], failed=KEPT[3:]))
    ask(world.token, report())
    text = page(world, branch)
    assert "cannot be bypassed" in text
    assert "Through its recorder a branch cannot start without its permit." in text
    assert "Suite: 14 of 14, just now, by the recorder’s own word." in text
    assert "Whoever holds the password of the checkpointer can still start the graph by hand." in text


def test_a_later_failure_takes_the_word_back(world: World, branch: Run) -> None:
    ask(world.token, report())
    ask(world.token, report(passed=KEPT[:3], failed=KEPT[3:]))
    assert "Its recorder kept 3 of 14 promises" in page(world, branch)


def test_no_recorder_is_no_promise() -> None:
    assert conformance_of(None).sentence == "No recorder speaks for this run."


def test_a_runtime_that_is_unknown_here_has_its_limit_too(world: World) -> None:
    other = Recorder(workspace=world.workspace, runtime="homemade 1", uid="rec_" + "a" * 24)
    assert "without its recorder" in conformance_of(other).limit


def test_the_command_tries_the_recorder_and_tells_the_real_server(tmp_path: Path) -> None:
    with served(tmp_path / "server") as server:
        made = worlds.manage("issue_token", "agent", "--scope", "redeem", env=server.env)
        assert made.returncode == 0, made.stderr[-2000:]
        (tmp_path / "token").write_text(made.stdout.split()[-1])
        command = [
            *(sys.executable, "-m", "debugger.recorder.cli", "conform", "--runtime", "langgraph"),
            *("--home", str(tmp_path / "home"), "--server", server.url),
            *("--token-file", str(tmp_path / "token")),
        ]
        loud = subprocess.run(command, cwd=worlds.ROOT, capture_output=True, text=True, check=False)
        assert loud.returncode == 0, loud.stderr[-2000:]
        assert loud.stdout.splitlines() == [f"kept   {name}" for name in CHECKS]
        assert loud.stderr == ""
        quiet = subprocess.run(
            [*command, "--background"], cwd=worlds.ROOT, capture_output=True, text=True, check=False
        )
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
        said = [each for each in server.get("audit").text.splitlines() if "recorder_conformed" in each]
        assert len(said) == 2
        assert all(json.loads(each)["body"]["passed"] == KEPT for each in said)
