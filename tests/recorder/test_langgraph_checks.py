"""A LangGraph that nobody tested is refused before anything of a run is recorded."""

from typing import Any

import pytest

from debugger.recorder import langgraph_checks
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.langgraph_checks import RuntimeUnknown, check_runtime
from tests.recorder.team import World, build


@pytest.fixture(autouse=True)
def anew() -> Any:
    langgraph_checks._self_test.cache_clear()
    yield
    langgraph_checks._self_test.cache_clear()


def test_the_installed_one_is_known() -> None:
    check_runtime()


@pytest.mark.parametrize("package", sorted(langgraph_checks.TESTED))
def test_another_version_is_refused_by_name(
    gate: Gate, world: World, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    recorder = world.open(gate.url)
    graph = build(recorder, world)
    known = langgraph_checks.version
    monkeypatch.setattr(langgraph_checks, "version", lambda name: "9.0.0" if name == package else known(name))
    with pytest.raises(RuntimeUnknown, match=f"^{package}: version_unknown") as refused:
        recorder.start_run(graph, thread_id="t")
    assert (refused.value.subject, refused.value.rule) == (package, "version_unknown")
    assert recorder.flush(60)
    assert gate.receipts == []


def test_a_call_that_names_no_checkpoint_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph_checks, "_run", lambda _saver: None)
    with pytest.raises(RuntimeUnknown):
        check_runtime()


def test_a_store_of_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(langgraph_checks, "_WRITES", {"another_column"})
    with pytest.raises(RuntimeUnknown, match="writes: form_changed"):
        check_runtime()
