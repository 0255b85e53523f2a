"""Loops of the Vercel AI SDK: the captured ones, and some that are put together from steps."""

import json
from pathlib import Path
from typing import Any

from branches.ports import SourceFile, SourceRun
from debugger.adapters.runtimes.ai_sdk import AiSdkImporter
from tests.adapters.places import MARKER
from tests.adapters.source_runs import a_file, bodies, check, read

SAVED = Path(__file__).with_name("data") / "ai_sdk_7"
LOOPS = sorted(path.name for path in SAVED.glob("[0-9]*.json"))
IMPORTER = AiSdkImporter()


def saved(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAVED / name).read_bytes())
    return found


def file_of(name: str) -> SourceFile:
    return SourceFile(name, (SAVED / name).read_bytes())


def run_of(loop: Any) -> SourceRun:
    found = read(IMPORTER, a_file("loop.json", loop))
    assert found.refused == ()
    (run,) = found.runs
    check(run)
    return run


def refusal_of(value: Any) -> tuple[str, str, str]:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    found = read(IMPORTER, SourceFile("loop.json", content), file_of("04_step_limit.json"))
    assert len(found.runs) == 1  # the other file is read all the same
    (refused,) = found.refused
    assert MARKER not in repr(refused)
    return refused.where, refused.field, refused.rule


def stop(run: SourceRun) -> Any:
    return bodies(run, "stopped")[0]


def a_step(number: int, *tools: str, finish: str = "tool-calls", **changes: Any) -> dict[str, Any]:
    """A step whose calls all came back."""
    calls = [{"tool": tool, "call_ref": f"sha256:{number}-{index}"} for index, tool in enumerate(tools)]
    return {
        "n": number,
        "finish_reason": finish,
        "tool_calls": calls,
        "tool_results": calls,
        "tool_errors": [],
        "approval_requests": [],
        "approval_responses": [],
        "usage": {"input": 10, "output": 5, "total": 15},
        **changes,
    }


def a_loop(*steps: Any, finish: str = "stop", conditions: Any = (), **changes: Any) -> dict[str, Any]:
    loop = saved("01_natural_finish.json")
    loop["steps"] = list(steps)
    loop["stop_conditions"] = list(conditions)
    loop["end"] = {"kind": "returned", "finish_reason": finish, "steps": len(steps)}
    return {**loop, **changes}


def fired(name: str, at: int, params: Any) -> dict[str, Any]:
    return {"name": name, "params": params, "evaluations": [{"at_steps": at, "result": True}]}


def thrown(name: str, *, of_sdk: bool = False) -> dict[str, Any]:
    return {"kind": "threw", "error": {"name": name, "ai_error": of_sdk, "is_dom": True, "cause": None}}
