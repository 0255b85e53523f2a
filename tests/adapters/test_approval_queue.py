"""Questions that a runtime keeps: a LangGraph thread that waits, and a RunState of the OpenAI Agents SDK."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from branches.evidence import langgraph_store
from branches.evidence.domains import CHECKPOINT, PART, THREAD
from branches.ports import Moment, StateMeasurement, StateProbe, Unsupported
from debugger.adapters.probes import approval_queue
from debugger.adapters.probes.approval_queue import LangGraphInterruptsProbe, RunStateProbe
from tests.adapters.places import KEY, MARKER, MOMENT, NOW, target

SAVED = Path(__file__).with_name("data") / "openai_agents"


class State(TypedDict):
    done: Annotated[list[str], lambda old, new: old + new]


def ask(name: str, times: int = 1) -> Callable[[State], dict[str, list[str]]]:
    def node(state: State) -> dict[str, list[str]]:
        return {"done": [f"{name}: {interrupt(f'{name} {MARKER} {number}?')}" for number in range(times)]}

    return node


class Thread:
    """A thread that asks two questions at once, then a third one twice over."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "store.sqlite"
        self.connection = sqlite3.connect(self.store, check_same_thread=False)
        graph: Any = StateGraph(State)
        graph.add_node("pay", ask("pay"))
        graph.add_node("mail", ask("mail"))
        graph.add_node("publish", ask("publish", times=2))
        graph.add_edge(START, "pay")
        graph.add_edge(START, "mail")
        graph.add_edge(["pay", "mail"], "publish")
        graph.add_edge("publish", END)
        self.graph = graph.compile(checkpointer=SqliteSaver(self.connection))
        self.config: Any = {"configurable": {"thread_id": "t-1"}}
        self.run({"done": []})

    def run(self, given: Any) -> None:
        self.graph.invoke(given, self.config, durability="sync")

    def answer(self, name: str, word: str) -> None:
        waiting = self.graph.get_state(self.config).interrupts
        (own,) = [each.id for each in waiting if each.value.startswith(name)]
        self.run(Command(resume={own: word}))

    @property
    def head(self) -> str:
        return self.graph.get_state(self.config).config["configurable"]["checkpoint_id"]

    def moment(self, checkpoint: str | None = None, thread: str | None = "t-1") -> Moment:
        ref = None if thread is None else KEY.digest(THREAD, thread)
        return Moment(ref, None if checkpoint is None else KEY.digest(CHECKPOINT, checkpoint), NOW)

    def now(self) -> StateMeasurement:
        return LangGraphInterruptsProbe().measure(target(store=str(self.store)), self.moment())

    def at(self, checkpoint: str) -> StateMeasurement:
        return LangGraphInterruptsProbe().capture(target(store=str(self.store)), self.moment(checkpoint))


@pytest.fixture
def thread(tmp_path: Path) -> Iterator[Thread]:
    made = Thread(tmp_path)
    yield made
    made.connection.close()


def drifted(before: StateMeasurement, after: StateMeasurement) -> set[str]:
    names = {KEY.digest(PART, name): name for name in ("pending", "resolved")}
    assert set(before.parts) == set(after.parts) == set(names)
    return {names[part] for part in names if before.parts[part] != after.parts[part]}


def counts(found: StateMeasurement) -> tuple[Any, Any]:
    assert (found.problem, found.reachable) == (None, True)
    return found.facts["pending"], found.facts["resolved"]


def test_it_says_what_waits_and_what_was_answered(thread: Thread) -> None:
    first = thread.now()
    assert counts(first) == (2, 0)
    assert thread.now() == first
    thread.answer("pay", f"yes {MARKER}")
    second = thread.now()
    assert counts(second) == (1, 1)
    assert drifted(first, second) == {"pending", "resolved"}
    thread.answer("mail", "no")
    third = thread.now()
    assert counts(third) == (1, 2)
    thread.answer("publish", "once")  # it asks a second time
    again = thread.now()
    assert counts(again) == (1, 2)
    assert again.fingerprint != third.fingerprint
    thread.run(Command(resume="twice"))  # to whoever asks
    assert counts(thread.now()) == (0, 3)
    assert MARKER not in repr((first, second, third, again))


def test_it_knows_the_queue_of_a_checkpoint_and_takes_newer_questions_for_drift(thread: Thread) -> None:
    thread.answer("pay", "yes")
    then, asked_at = thread.now(), thread.head
    assert thread.at(asked_at) == then
    thread.answer("mail", "yes")
    assert counts(thread.at(asked_at)) == (0, 2)  # what waited there has been answered since
    assert counts(thread.now()) == (1, 2)
    assert thread.now().fingerprint != then.fingerprint


def test_it_sees_another_answer_in_place_of_the_first(thread: Thread) -> None:
    thread.answer("pay", "yes")
    before = thread.now()
    _, other = JsonPlusSerializer().dumps_typed(["no"])
    with thread.connection as connection:
        changed = connection.execute("UPDATE writes SET value = ? WHERE idx = -4", (other,)).rowcount
    assert changed >= 1
    after = thread.now()
    assert counts(after) == counts(before)
    assert drifted(before, after) == {"resolved"}


def test_it_sees_another_question_in_place_of_the_first(thread: Thread) -> None:
    before = thread.now()
    with thread.connection as connection:
        other = connection.execute("SELECT value FROM writes WHERE idx = -3 ORDER BY task_id").fetchall()[1][
            0
        ]
        connection.execute(
            "UPDATE writes SET value = ? WHERE idx = -3"
            " AND task_id = (SELECT min(task_id) FROM writes WHERE idx = -3)",
            (other,),
        )
    after = thread.now()
    assert counts(after) == (2, 0)
    assert drifted(before, after) == {"pending"}


def test_it_calls_a_question_left_that_the_thread_went_on_without(thread: Thread) -> None:
    before = thread.now()
    thread.graph.update_state(thread.config, {"done": ["by hand"]}, as_node="publish")
    after = thread.now()
    assert counts(after) == (0, 2)
    assert after.fingerprint != before.fingerprint


def test_it_believes_no_copies_that_disagree_and_finds_one_by_its_own_id(thread: Thread) -> None:
    head = thread.head
    anywhere = thread.moment(head, thread=None)
    probe, place = LangGraphInterruptsProbe(), target(store=str(thread.store))
    assert probe.measure(place, anywhere) == thread.now()
    with thread.connection as connection:
        langgraph_store.copy(connection, source="t-1", checkpoint=head, target="br_copy")
    found = probe.measure(place, anywhere)
    assert (found.fingerprint, found.problem) == (None, "thread_ambiguous")
    named = target(store=str(thread.store), thread_id="t-1")
    assert probe.measure(named, MOMENT) == thread.now()


@pytest.mark.parametrize(
    ("moment", "problem"),
    [
        (Moment(KEY.digest(THREAD, "t-2"), None, NOW), "thread_absent"),
        (Moment(None, None, NOW), "thread_absent"),
    ],
)
def test_it_says_what_is_not_there(thread: Thread, moment: Moment, problem: str) -> None:
    found = LangGraphInterruptsProbe().measure(target(store=str(thread.store)), moment)
    assert (found.fingerprint, found.problem) == (None, problem)
    assert thread.at("no such checkpoint").problem == "checkpoint_absent"
    nowhere = LangGraphInterruptsProbe().capture(target(store=str(thread.store)), MOMENT)
    assert (nowhere.fingerprint, nowhere.problem) == (None, "no_checkpoint")


def test_it_takes_no_other_file_for_an_empty_queue(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(MARKER)
    with closing(sqlite3.connect(tmp_path / "other")) as connection, connection:
        connection.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    for name in ("absent", "text", "other"):
        found = LangGraphInterruptsProbe().measure(target(store=str(tmp_path / name)), MOMENT)
        assert (found.fingerprint, found.reachable, found.problem) == (None, False, "store_unreadable")


def test_it_gives_up_on_more_questions_than_it_reads(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_queue, "MOST_ASKED", 1)
    assert thread.now().problem == "too_many"


def test_it_writes_nothing_into_the_store_and_logs_nothing(thread: Thread, caplog: Any) -> None:
    before = thread.store.read_bytes()
    thread.now()
    assert thread.store.read_bytes() == before
    assert MARKER not in caplog.text


def state(name: str) -> dict[str, Any]:
    return json.loads((SAVED / f"{name}.json").read_text())


def run_state(tmp_path: Path, content: Any) -> StateMeasurement:
    path = tmp_path / "state.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return RunStateProbe().measure(target(file=str(path)), MOMENT)


def decide(name: str, decision: dict[str, Any], **entry: Any) -> dict[str, Any]:
    found = state(name)
    given = {"agent": {"name": "billing"}, "tool_key": "refund", **entry, "decision": decision}
    found["context"]["function_tool_approvals"] = [given]
    return found


def test_it_reads_the_captured_states(tmp_path: Path) -> None:
    waiting, approved = (run_state(tmp_path, state(name)) for name in ("waiting", "approved"))
    assert (counts(waiting), counts(approved)) == ((1, 0), (0, 1))
    assert drifted(waiting, approved) == {"pending", "resolved"}
    assert run_state(tmp_path, state("waiting")) == waiting
    assert MARKER not in repr((waiting, approved))
    assert "refund" not in repr((waiting, approved))


def test_it_takes_a_call_that_was_approved_but_not_resumed_for_decided(tmp_path: Path) -> None:
    approved = run_state(tmp_path, decide("waiting", {"approved": ["c2"], "rejected": []}))
    assert counts(approved) == (0, 1)
    assert approved == run_state(tmp_path, state("approved"))
    rejected = run_state(tmp_path, decide("waiting", {"approved": [], "rejected": ["c2"]}))
    assert counts(rejected) == (0, 1)
    assert drifted(approved, rejected) == {"resolved"}
    assert counts(run_state(tmp_path, decide("waiting", {"approved": ["c9"], "rejected": []}))) == (1, 1)


def test_it_reads_a_decision_for_every_call_and_only_for_its_own_agent_and_tool(tmp_path: Path) -> None:
    always = {"approved": True, "rejected": []}
    assert counts(run_state(tmp_path, decide("waiting", always))) == (0, 1)
    assert counts(run_state(tmp_path, decide("waiting", always, tool_key="lookup"))) == (1, 1)
    assert counts(run_state(tmp_path, decide("waiting", always, agent={"name": "triage"}))) == (1, 1)
    old = state("waiting")
    old["context"]["approvals"] = {"refund": {"approved": [], "rejected": True}}
    assert counts(run_state(tmp_path, {**old, "$schemaVersion": "1.5"})) == (0, 1)


def test_it_reads_the_approvals_of_a_hosted_server(tmp_path: Path) -> None:
    found = state("waiting")
    request = {"type": "mcp_approval_request", "id": "mcpr_1", "name": "wipe", "arguments": MARKER}
    item = {"type": "tool_approval_item", "raw_item": request, "agent": {"name": "billing"}}
    found["current_step"]["data"]["interruptions"].append(item)
    assert counts(run_state(tmp_path, found)) == (2, 0)
    identity = {"type": "request", "request_id": "mcpr_1"}
    decision = {"approved": [], "rejected": True}
    found["context"]["hosted_mcp_approvals"] = [{"identity": identity, "decision": decision}]
    assert counts(run_state(tmp_path, found)) == (1, 1)


def test_it_sees_other_arguments_of_a_call_that_waits(tmp_path: Path) -> None:
    before = run_state(tmp_path, state("waiting"))
    other = state("waiting")
    other["current_step"]["data"]["interruptions"][0]["raw_item"]["arguments"] = '{"amount":4200}'
    assert drifted(before, run_state(tmp_path, other)) == {"pending"}


def with_fields(**fields: Any) -> str:
    return json.dumps({**state("waiting"), **fields})


BROKEN: dict[str, tuple[str, str]] = {
    "nothing": ("", "state_form"),
    "half a file": (json.dumps(state("waiting"))[:-40], "state_form"),
    "a list": ("[]", "state_form"),
    "a name twice": ('{"$schemaVersion": "1.21", "$schemaVersion": "1.20"}', "state_form"),
    "no version": (with_fields(**{"$schemaVersion": None}), "state_form"),
    "a newer version": (with_fields(**{"$schemaVersion": "1.22"}), "version_unknown"),
    "another version": (with_fields(**{"$schemaVersion": "2.0"}), "version_unknown"),
    "no version's form": (with_fields(**{"$schemaVersion": "1.2.1"}), "version_unknown"),
    "no context": (with_fields(context=None), "state_form"),
    "no approvals": (with_fields(context={}), "state_form"),
    "an odd step": (with_fields(current_step={"type": "next_step_other"}), "state_form"),
    "a step without calls": (
        with_fields(current_step={"type": "next_step_interruption", "data": {}}),
        "state_form",
    ),
    "no step": (json.dumps({k: v for k, v in state("waiting").items() if k != "current_step"}), "state_form"),
    "a call decided twice": (
        json.dumps(decide("waiting", {"approved": ["c2"], "rejected": ["c2"]})),
        "state_inconsistent",
    ),
    "a decision of an odd form": (json.dumps(decide("waiting", {"approved": "c2"})), "state_form"),
    "a call of an odd form": (json.dumps(decide("waiting", {"approved": [7]})), "state_form"),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_it_guesses_nothing_from(tmp_path: Path, broken: str) -> None:
    content, problem = BROKEN[broken]
    found = run_state(tmp_path, content)
    assert (found.fingerprint, found.reachable, found.problem, found.facts) == (None, False, problem, {})


def test_it_takes_no_absent_file_for_an_empty_queue(tmp_path: Path) -> None:
    found = RunStateProbe().measure(target(file=str(tmp_path / "absent")), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "file_absent")


@pytest.mark.parametrize("probe", [LangGraphInterruptsProbe(), RunStateProbe()])
def test_it_fulfils_its_port(probe: StateProbe) -> None:
    assert isinstance(probe, StateProbe)
    found = probe.measure(target(), MOMENT)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "target_unfit")
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260


def test_a_file_keeps_no_past() -> None:
    with pytest.raises(Unsupported):
        RunStateProbe().capture(target(file="x"), MOMENT)
