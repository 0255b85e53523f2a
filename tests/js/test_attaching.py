"""What the recorder refuses before anything is recorded, and that it says why."""

import re
from typing import Any

import pytest

from tests.adapters.places import MARKER
from tests.js.toolchain import MODULE, RECORDER, VERSIONS, Toolchain


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def said(request: Any, toolchain: Toolchain) -> Any:
    told = toolchain.told(request.param, "attaching.mjs", f"ai-{request.param}", str(MODULE))
    assert MARKER not in str(told)
    return {"version": VERSIONS[request.param], **told}


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        ("another_major", "ai 8.0.0 is not known here; this recorder knows ai 6 and 7"),
        ("an_older_major", "ai 5.0.99 is not known here; this recorder knows ai 6 and 7"),
        ("no_version", "the AI SDK did not say its version: self-test failed"),
        ("no_agent", "not the AI SDK that this recorder knows (no ToolLoopAgent)"),
        ("nothing", "not the AI SDK that this recorder knows (no generateText)"),
        ("conditions_not_asked", "ai {version} does not do what is expected: self-test failed"),
        ("steps_not_told", "ai {version} does not do what is expected: self-test failed"),
        ("nowhere", "url or folder: required"),
        ("no_address", "url: address"),
        ("no_token", "tokenEnv: no token in the environment as BRANCHGATE_NO_SUCH"),
        ("workflow", "workflow: name"),
        ("policy", "policyVersion: version"),
        ("budget", "tokenBudget: whole number"),
        ("agent_name", "agent: name"),
    ],
)
def test_it_refuses_what_it_cannot_work_with_in_clear_words(said: Any, attempt: str, words: str) -> None:
    assert said[attempt] == "branchgate: " + words.format(version=said["version"])


def test_the_module_depends_on_nothing() -> None:
    text = "\n".join(path.read_text() for path in RECORDER.glob("*.mjs"))
    imported = set(re.findall(r'^(?:import|export) .*from "(.+)";$', text, re.MULTILINE))
    assert {name for name in imported if not name.startswith(("./", "node:"))} == set()
    assert len(imported) > 5
    assert "ependencies" not in (RECORDER / "package.json").read_text()
