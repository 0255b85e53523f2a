"""The recorder of one home folder: pairs once, wraps tools, starts runs, works on without the server."""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from branches.evidence.ids import mint
from branches.evidence.kinds.forms import VERSION_PATTERN
from debugger.recorder import configuration as configurations
from debugger.recorder import effects, pairing, rehearsal, wrapping
from debugger.recorder.answers import Answers
from debugger.recorder.client import Client
from debugger.recorder.frames import private_file
from debugger.recorder.gates import OwnGate
from debugger.recorder.handoffs import Handoffs
from debugger.recorder.langgraph_checks import check_runtime
from debugger.recorder.names import Declaration
from debugger.recorder.record import Gate, RunRecord
from debugger.recorder.runs import Run
from debugger.recorder.sender import Sender
from debugger.recorder.spool import Spool
from debugger.recorder.state import StateReader
from debugger.recorder.stores import Store, config_of
from debugger.recorder.topology import Topology, describe

RUNTIME: Final = "langgraph"
VERIFIER: Final = "verifier"
"""What a verifier pairs as: it runs nothing, so that a workflow of any runtime is one that it may judge."""
_VERSION: Final = re.compile(VERSION_PATTERN)
_run: ContextVar[RunRecord | None] = ContextVar("branchgate_run", default=None)


def runtime_version() -> dict[str, str]:
    """Return the runtime's name and version as receipts carry them."""
    try:
        return {"name": RUNTIME, "version": version(RUNTIME)}
    except PackageNotFoundError:
        return {"name": RUNTIME, "version": "0"}


class Recorder:
    """Records runs of one workflow version from one home folder; use `open`."""

    def __init__(
        self,
        home: Path,
        client: Client,
        identity: pairing.Identity,
        declaration: Declaration,
        targets: Path | None,
    ) -> None:
        self.home = home
        self.client = client
        self.identity = identity
        self.declaration = declaration
        self.tools: dict[str, effects.Wrapped] = {}
        self.configuration: dict[str, Any] = {}
        self.problems: set[str] = set()
        self.state = StateReader(declaration, targets, identity.key)
        self.answers = Answers(home / "answers")
        self.spool = Spool(home / "spool", on_local=self.answers.restore, before_removal=self.answers.sync)
        self.sender = Sender(self.spool, client, home / "refused.ndjson")
        self._active: list[RunRecord] = []
        self._guard = threading.Lock()

    @classmethod
    def open(
        cls,
        home: Path,
        *,
        server: str,
        token: str,
        workflow: str,
        version: str,
        targets: Path | None = None,
        name: str = "recorder",
        runtime: Mapping[str, str] | None = None,
    ) -> "Recorder":
        """Open a home folder (made with mode 0700), pair on first use, and begin to deliver.

        `runtime`: name and version that it pairs as, LangGraph's unless told otherwise.

        Once paired, and once the workflow was fetched, the server may be away. Raises GateUnreachable or
        GateRefused when it is needed and is not there, or says no, and RuntimeDiffers for a workflow that is
        declared for another runtime; a verifier takes any.
        """
        home, own = Path(home), dict(runtime or runtime_version())
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        client = Client(server, token)
        identity = pairing.paired(home) or pairing.pair(home, client, name=name, runtime=own)
        client.on_not_paired = partial(pairing.go_on, identity, client)
        declaration = _declaration(home, client, workflow, version)
        if own["name"] != VERIFIER:
            declaration.check_runtime(own["name"])
        recorder = cls(home, client, identity, declaration, None if targets is None else Path(targets))
        recorder.sender.start()
        return recorder

    def wrap(self, tool: Any, on_skip: Any = None) -> Any:
        """Return a tool (a function, a coroutine function or a LangChain BaseTool) that is recorded.

        `on_skip`: what the agent gets when a branch must not do the call and no answer was recorded: a
        value, or a callable with the tool's own arguments.
        """
        return wrapping.wrap(self, tool, on_skip)

    def declare(self, configuration: Mapping[str, Any]) -> None:
        """Say what the agents of the graph being built are; `build(recorder)` calls this.

        `configuration`: `{"agents": [{"agent", "role", "model", "prompt", "tools"}]}`; texts are hashed
        before they leave. A branch resumes only on a graph declared part by part as its permit pins it.
        """
        self.configuration = dict(configuration)

    @property
    def unwrapped(self) -> list[str]:
        """The tools that the workflow declares as writing and that are not wrapped here."""
        return sorted(self.declaration.writing_tools - self.tools.keys())

    def start_run(
        self,
        graph: Any,
        *,
        thread_id: str,
        configuration: Mapping[str, Any] | None = None,
        contract_version: str | None = None,
    ) -> Run:
        """Begin to record a run of a compiled graph on a thread.

        `configuration`: that of this run, where it is not the declared one; see `declare`. What is left
        out is null in the record: not known, and nothing good follows from it. The recording is full
        only when every tool that the workflow declares as writing is wrapped by now. `contract_version`:
        that of the published topology contract that counts for this run, where it is not the workflow's
        own. Raises OutsideRun for a router that is only asked again, RuntimeDiffers for a workflow of
        another runtime, and ValueError for what is no version.
        """
        _refuse_in_rehearsal()
        self.declaration.check_runtime(RUNTIME)
        run = mint("run")
        record = self.record(run, run, OwnGate(run, self.answers), contract_version=contract_version)
        started = Run(self, graph, record, str(thread_id))
        self.answers.add({"t": "run", "run": run, "thread": started.thread})
        record.emit("run_started", self._started(graph, started, configuration), durable=True)
        held = graph.get_state(config_of(started.thread))
        started.learn(held.values, (held.config or {}).get("configurable", {}).get("checkpoint_id"))
        return started

    def record(
        self,
        run: str,
        root: str,
        gate: Gate,
        attempt: str | None = None,
        *,
        contract_version: str | None = None,
    ) -> RunRecord:
        """Return a fresh numbering for a run, or for the attempt of a branch.

        A run without a `contract_version` has the workflow's own; a branch names none. Raises ValueError.
        """
        if contract_version is not None and not _VERSION.fullmatch(contract_version):
            raise ValueError("contract_version: pattern")
        own = contract_version or self.declaration.contract_version
        return RunRecord(
            self,
            run=run,
            root=root,
            declaration=self.declaration,
            gate=gate,
            attempt=attempt,
            contract_version=own if attempt is None else None,
        )

    def handoffs(self, run: str) -> Handoffs:
        """Return the hand-overs of a run that was recorded from this home, for a program that starts again.

        One program at a time writes of a run. Raises LookupError for a run that this home does not know.
        """
        self.answers.refresh()
        root = self.answers.root_of(run)
        if root is None:
            raise LookupError("run: not_of_this_home")
        record = self.record(run, root, OwnGate(run, self.answers))
        record.go_on()
        return record.handoffs

    def described(self, topology: Topology, configuration: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a configuration (the declared one by default) as the record carries it."""
        chosen = self.configuration if configuration is None else configuration
        return configurations.described(chosen, self.declaration, self.identity.key, routing=topology.digest)

    def topology(self, graph: Any) -> Topology:
        """Describe a compiled graph as it is pinned. Raises RuntimeUnknown for a LangGraph not known."""
        check_runtime()
        return describe(graph, self.identity.key)

    @contextmanager
    def running(self, record: RunRecord) -> Iterator[None]:
        """Let wrapped tools know which run they belong to. Raises OutsideRun, as `start_run` does."""
        _refuse_in_rehearsal()
        token = _run.set(record)
        with self._guard:
            self._active.append(record)
        try:
            yield
        finally:
            with self._guard:
                self._active.remove(record)
            _run.reset(token)

    def run_here(self) -> RunRecord:
        """Return the run a call belongs to. Raises OutsideRun when it cannot be told, or when it is none."""
        _refuse_in_rehearsal()
        if (record := _run.get()) is not None:
            return record
        with self._guard:
            active = list(self._active)
        if len(active) != 1 or rehearsal.is_anywhere():
            raise effects.OutsideRun("a recorded tool was called outside a recorded run")
        return active[0]  # from a raw thread: its run is plain, its checkpoint is not

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait at most so many seconds until the server answered for everything; returns whether it did."""
        return self.sender.flush(timeout)

    def status(self) -> dict[str, int | str | None]:
        """Return counts and short codes, nothing of any run's content."""
        return {
            "recorder": self.identity.recorder,
            "waiting": self.spool.waiting,
            "refused": self.sender.refused_count,
            "problem": self.sender.problem or next(iter(sorted(self.problems)), None),
        }

    def close(self) -> None:
        """Stop delivering and let go of the home; what is not delivered stays for the next time."""
        self.sender.stop()
        self.spool.close()
        self.answers.close()
        self.client.close()

    def _started(self, graph: Any, run: Run, configuration: Mapping[str, Any] | None) -> dict[str, Any]:
        declaration = self.declaration
        # A tool that goes its own way past the recorder would be missing in the list of effects.
        is_full = Store(graph).is_sqlite and not self.unwrapped
        return {
            "workflow": declaration.uid,
            "workflow_version": declaration.version,
            "runtime": runtime_version(),
            "external_ref": run.external_ref,
            "configuration": self.described(self.topology(graph), configuration),
            "contract_version": run.record.contract_version,
            "phase": declaration.phase,
            "recording": "full" if is_full else "partial",
        }


def _refuse_in_rehearsal() -> None:
    if rehearsal.is_here():
        raise effects.OutsideRun("a recorded tool was called where an edit is applied: nothing is sent there")


def _declaration(home: Path, client: Client, workflow: str, version: str) -> Declaration:
    """Return the workflow version, from the home where it was fetched before: it never changes."""
    path = home / f"workflow-{workflow.replace('/', '_')}-{version}.json"
    if not path.exists():
        private_file(path, json.dumps(client.workflow(workflow, version)).encode())
    return Declaration(json.loads(path.read_bytes()))
