"""Loops of both versions, run for real: what each leaves behind, and how its stop is judged."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from branches.ports import SourceFile, SourceRun
from tests.adapters.ai_sdk_loops import IMPORTER, stop
from tests.adapters.places import MARKER
from tests.adapters.source_runs import check, effects, everything, read, stop_states, stop_verdict
from tests.js.toolchain import MODULE, VERSIONS, Toolchain

MAJORS = sorted(VERSIONS)
WAYS = ("generate", "stream", "agent", "agentStream")

# loop → (cause, state, reasons)
ANY_WAY: Mapping[str, tuple[str | None, str, tuple[str, ...]]] = {
    "natural_finish": ("natural_finish", "false_complete", ("no_receipt",)),
    "done_tool": ("done_tool", "false_complete", ("no_receipt",)),
    "finish_tool": ("done_tool", "false_complete", ("no_receipt",)),
    "step_limit": ("step_limit", "bounded_stop", ("step_limit",)),
    "token_budget": ("token_budget", "bounded_stop", ("token_budget",)),
    "output_limit": ("output_limit", "bounded_stop", ("output_limit",)),
    "filtered": ("provider_error", "failed", ("provider_error",)),
    "aborted": ("user_abort", "bounded_stop", ("user_abort",)),
    "aborted_plainly": ("user_abort", "bounded_stop", ("user_abort",)),
    "timed_out": ("timeout", "stuck", ("timeout",)),
    "timed_out_after_work": ("timeout", "bounded_stop", ("timeout",)),
    "step_timed_out": ("timeout", "stuck", ("timeout",)),
    "approval_unrouted": (
        "approval_requested",
        "waiting_unrouted",
        ("no_deadline", "no_owner", "no_resume_token"),
    ),
    "approval_routed": ("approval_requested", "waiting", ()),
    "tool_failed": ("natural_finish", "failed", ("tool_failed",)),
    "unknown_tool": ("natural_finish", "failed", ("tool_failed",)),
    "provider_failed": ("provider_error", "failed", ("provider_error",)),
    "provider_failed_later": ("provider_error", "failed", ("provider_error",)),
    "limit_reached_by_finishing": ("natural_finish", "false_complete", ("no_receipt",)),
}
OWN: Mapping[str, tuple[str | None, str, tuple[str, ...]]] = {
    "default_of_a_call": ("step_limit", "bounded_stop", ("step_limit",)),
    "default_of_an_agent": ("step_limit", "bounded_stop", ("step_limit",)),
    "never_asked_to_stop": ("natural_finish", "false_complete", ("no_receipt",)),
    "finish_in_an_earlier_step": ("natural_finish", "false_complete", ("no_receipt",)),
    "own_condition_at_the_limit": (None, "uncertain", ("cause_not_recorded",)),
    "approval_at_the_limit": (
        "approval_requested",
        "waiting_unrouted",
        ("no_deadline", "no_owner", "no_resume_token"),
    ),
    "failed_and_done_again": ("natural_finish", "false_complete", ("no_receipt",)),
    "broken_stream": ("provider_error", "failed", ("provider_error",)),
    "approval_that_nobody_could_route": (
        "approval_requested",
        "waiting_unrouted",
        ("no_deadline", "no_owner", "no_resume_token"),
    ),
    "tool_that_heard_nothing": ("user_abort", "bounded_stop", ("user_abort",)),
    "reader_went_away": ("user_abort", "bounded_stop", ("user_abort",)),
    "left_open": (None, "uncertain", ("cause_not_recorded",)),
    "stopped_by_a_transform": (None, "uncertain", ("cause_not_recorded",)),
    "prepared_anew": ("step_limit", "bounded_stop", ("step_limit",)),
}
ONLY_7 = {
    "denied_by_a_rule": ("natural_finish", "false_complete", ("no_receipt",)),
    "approved_by_a_rule": ("natural_finish", "false_complete", ("no_receipt",)),
    "tool_timed_out": ("natural_finish", "failed", ("tool_failed",)),
}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What one version left behind: the version it said, what the programs saw, and the folder."""

    version: str
    seen: Mapping[str, Any]
    folder: Path
    printed: str

    def files(self, loop: str) -> list[Path]:
        """Return the evidence of a scenario, in the order in which its loops ended."""
        ends = {path: evidence(path)["ended_at"] for path in (self.folder / loop).iterdir()}
        return sorted(ends, key=lambda path: (ends[path], path.stat().st_mtime_ns))

    def runs(self, loop: str) -> list[SourceRun]:
        """Return the runs of a scenario as the importer reads them, after every check at the door."""
        found = [read(IMPORTER, SourceFile(path.name, path.read_bytes())) for path in self.files(loop)]
        assert [each.refused for each in found] == [()] * len(found)
        for each in found:
            check(each.runs[0])
        return [each.runs[0] for each in found]

    def run(self, loop: str) -> SourceRun:
        (run,) = self.runs(loop)
        return run


def evidence(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())
    return found


@pytest.fixture(scope="module", params=MAJORS)
def recorded(request: Any, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Every loop of one version, run once."""
    folder = tmp_path_factory.mktemp(f"ai-{request.param}")
    done = toolchain.run(request.param, "loops.mjs", f"ai-{request.param}", str(folder), str(MODULE))
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["version"] == VERSIONS[request.param]
    return Recorded(told["version"], told["seen"], folder, done.stdout + done.stderr)


def judged(run: SourceRun) -> tuple[str | None, str, tuple[str, ...]]:
    verdict = stop_verdict(stop(run))
    assert stop_states(run) == [str(verdict.state)]
    return stop(run)["stop_cause"], str(verdict.state), tuple(verdict.reasons)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("loop", ANY_WAY)
def test_each_end_is_recorded_however_the_sdk_is_called(recorded: Recorded, loop: str, way: str) -> None:
    assert judged(recorded.run(f"{loop}-{way}")) == ANY_WAY[loop]


@pytest.mark.parametrize("loop", OWN)
def test_each_gotcha_has_the_state_that_the_rules_give_it(recorded: Recorded, loop: str) -> None:
    assert judged(recorded.run(loop)) == OWN[loop]


def test_what_only_version_7_has_is_recorded_too(recorded: Recorded) -> None:
    there = [loop for loop in ONLY_7 if loop in recorded.seen]
    assert there == (list(ONLY_7) if recorded.version.startswith("7") else [])
    for loop in there:
        assert judged(recorded.run(loop)) == ONLY_7[loop]
    if there:
        # A rule of the program denied it: it was not run, and nothing waits for an answer.
        assert effects(recorded.run("denied_by_a_rule")) == []
        assert effects(recorded.run("approved_by_a_rule")) == [("refund", "acknowledged")]
        assert effects(recorded.run("tool_timed_out")) == [("slow", "no_answer")]


def test_every_loop_that_ran_is_expected_here(recorded: Recorded) -> None:
    several = {"resumed", "denied", "approved_and_failed", "at_the_same_time", "callbacks_of_the_program"}
    expected = {f"{loop}-{way}" for loop in ANY_WAY for way in WAYS} | set(OWN) | several
    assert set(recorded.seen) - set(ONLY_7) == expected
    assert {loop: each["problems"] for loop, each in recorded.seen.items() if each["problems"]} == {}


def test_content_is_in_nothing_that_leaves(recorded: Recorded) -> None:
    files = [path for path in recorded.folder.rglob("*") if path.is_file()]
    assert len(files) > len(recorded.seen)
    assert [path.name for path in files if MARKER.encode() in path.read_bytes()] == []
    assert MARKER not in recorded.printed
    sources = [SourceFile(path.name, path.read_bytes()) for path in files]
    assert MARKER not in everything(read(IMPORTER, *sources))


def test_the_evidence_is_for_its_owner_only(recorded: Recorded) -> None:
    (path,) = recorded.files("natural_finish-generate")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


# --- the program is left as it was


def test_a_program_gets_its_own_errors_as_without_a_recorder(recorded: Recorded) -> None:
    thrown = {loop: each["thrown"] for loop, each in recorded.seen.items() if each["thrown"]}
    assert thrown == {
        f"{loop}-{way}": error
        for way in ("generate", "agent")
        for loop, error in {
            "aborted": "its own",
            "aborted_plainly": "AbortError",
            "timed_out": "TimeoutError",
            "timed_out_after_work": "TimeoutError",
            "step_timed_out": "TimeoutError",
            "provider_failed": "its own",
            "provider_failed_later": "its own",
        }.items()
    }


def test_a_programs_own_callbacks_are_called_as_before(recorded: Recorded) -> None:
    told = recorded.seen["callbacks_of_the_program"]["told"]
    # Two steps and a stream's one; the SDK calls a stream whose second step failed finished.
    assert told == {"steps": 3, "tools": 2, "ends": 2, "chunks": True, "errors": 1}
    assert [judged(run)[1] for run in recorded.runs("callbacks_of_the_program")] == [
        "false_complete",
        "failed",
    ]


# --- what the conditions were, and which of them ended it


def conditions(run: SourceRun) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = stop(run)["policy"]["conditions"]
    return found


def test_the_sdks_own_conditions_are_recorded_with_their_parts(recorded: Recorded) -> None:
    limit = {"type": "step_count", "n": 5}
    finish = {"type": "tool_call", "tool": "finish"}
    assert conditions(recorded.run("finish_tool-generate")) == [limit, finish]
    assert conditions(recorded.run("finish_tool-agentStream")) == [limit, finish]
    budget = {"type": "token_budget", "n": 900}
    assert conditions(recorded.run("token_budget-stream")) == [{"type": "step_count", "n": 9}, budget]
    assert conditions(recorded.run("never_asked_to_stop")) == [{"type": "loop_finished"}]
    # One of the program's own making is in no receipt, also where it asks one of the SDK's.
    assert conditions(recorded.run("finish_in_an_earlier_step")) == [limit]


def test_a_default_is_recorded_like_any_other_condition(recorded: Recorded) -> None:
    assert conditions(recorded.run("default_of_a_call")) == [{"type": "step_count", "n": 1}]
    assert conditions(recorded.run("default_of_an_agent")) == [{"type": "step_count", "n": 20}]
    assert conditions(recorded.run("prepared_anew")) == [{"type": "step_count", "n": 3}]


def test_a_timeout_is_a_deadline_and_bounds_the_loop(recorded: Recorded) -> None:
    assert {"type": "deadline", "ms": 5000} in conditions(recorded.run("timed_out-generate"))
    assert {"type": "deadline", "ms": 5000} in conditions(recorded.run("timed_out_after_work-agentStream"))
    assert conditions(recorded.run("step_timed_out-generate")) == [{"type": "step_count", "n": 5}]
    assert list(stop_verdict(stop(recorded.run("never_asked_to_stop"))).warnings) == ["unbounded"]


def test_the_version_of_the_policy_and_the_times_are_kept(recorded: Recorded) -> None:
    run = recorded.run("step_limit-agent")
    assert stop(run)["policy"]["version"] == "p7"
    assert run.workflow == "desk"
    assert [each.at > "2026" for each in run.receipts] == [True] * len(run.receipts)
    assert [each.at for each in run.receipts] == sorted(each.at for each in run.receipts)
    assert run.receipts[0].body["runtime"] == {"name": "ai-sdk", "version": recorded.version}
    assert run.receipts[-1].agent == "clerk"


def test_as_many_steps_as_the_limit_are_no_limit_where_something_else_ended_it(recorded: Recorded) -> None:
    for loop in ("limit_reached_by_finishing-generate", "approval_at_the_limit"):
        body = stop(recorded.run(loop))
        assert len(body["steps"]) == body["policy"]["conditions"][0]["n"] == 2
        assert body["stop_cause"] != "step_limit"


# --- approvals


def test_an_approval_keeps_who_decides_and_the_token_as_a_digest(recorded: Recorded) -> None:
    for way in WAYS:
        (path,) = recorded.files(f"approval_routed-{way}")
        route = evidence(path)["approval_route"]
        assert (route["owner"], route["deadline"]) == ("approver-1", "2026-12-01T09:00:00.000Z")
        assert route["resume_token"].startswith("sha256:")
        assert effects(recorded.run(f"approval_routed-{way}")) == []


def test_a_resumed_call_counts_its_steps_anew_and_shows_what_was_approved(recorded: Recorded) -> None:
    asked, resumed, again = recorded.runs("resumed")
    assert [len(stop(run)["steps"]) for run in (asked, resumed, again)] == [2, 2, 1]
    assert judged(resumed) == ("step_limit", "bounded_stop", ("step_limit",))
    assert effects(asked) == [("search", "acknowledged")]
    assert effects(resumed) == [("refund", "acknowledged"), *[("search", "acknowledged")] * 2]
    # The same approval runs as often as it is sent: each time is an effect of its own.
    assert effects(again) == [("refund", "acknowledged")]


def test_what_was_denied_was_not_run(recorded: Recorded) -> None:
    asked, resumed = recorded.runs("denied")
    assert (judged(asked)[1], effects(asked)) == ("waiting_unrouted", [])
    assert (judged(resumed)[1], effects(resumed)) == ("false_complete", [])


def test_an_approved_tool_that_failed_fails_the_loop_though_no_step_shows_it(recorded: Recorded) -> None:
    _, resumed = recorded.runs("approved_and_failed")
    assert judged(resumed) == ("natural_finish", "failed", ("tool_failed",))
    assert effects(resumed) == [("refund", "failed")]


# --- what no step shows


@pytest.mark.parametrize("way", ["stream", "agentStream"])
def test_a_call_whose_step_was_cut_off_is_an_effect_without_an_answer(recorded: Recorded, way: str) -> None:
    assert effects(recorded.run(f"aborted_plainly-{way}")) == [("slow", "no_answer")]
    assert effects(recorded.run(f"timed_out_after_work-{way}")) == [
        ("slow", "no_answer"),
        ("search", "acknowledged"),
    ]


def test_a_tool_that_still_runs_when_the_loop_is_aborted_is_an_open_effect(recorded: Recorded) -> None:
    assert effects(recorded.run("tool_that_heard_nothing")) == [("deaf", None), ("search", "acknowledged")]


def test_a_tool_that_a_model_made_up_is_named_by_a_digest(recorded: Recorded) -> None:
    body = stop(recorded.run("unknown_tool-generate"))
    (name,) = body["steps"][0]["tools"]
    assert name.startswith("hmac-sha256:")
    assert effects(recorded.run("unknown_tool-generate")) == []


def test_two_loops_of_one_agent_at_once_are_kept_apart(recorded: Recorded) -> None:
    first, second = recorded.runs("at_the_same_time")
    assert [len(stop(run)["steps"]) for run in (first, second)] == [4, 4]
    assert {run.receipts[-1].agent for run in (first, second)} == {None, "second"}
    assert first.external_ref != second.external_ref
