"""Opens a home folder for the OpenAI Agents SDK, joins its tracing, and begins to record runs."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branches.evidence.ids import mint
from debugger.recorder.gates import OwnGate
from debugger.recorder.openai_agents.checks import RUNTIME, TracingOff, check_runtime, runtime_version
from debugger.recorder.recorder import Recorder

if TYPE_CHECKING:
    from debugger.recorder.openai_agents.runs import AgentsRun


def attach() -> None:
    """Check the SDK and join its tracing; to do it again is harmless.

    The SDK's other processors stay: its own one sends traces, content and all, to the provider, unless
    `set_trace_processors([])` was called before. Raises RuntimeUnknown for an SDK that was not tested, and
    TracingOff where tracing is off or a trace is open here already.
    """
    check_runtime()
    from debugger.recorder.openai_agents.spans import add_processor

    add_processor()


def open_recorder(
    home: Path,
    *,
    server: str,
    token: str,
    workflow: str,
    version: str,
    targets: Path | None = None,
    name: str = "recorder",
) -> Recorder:
    """Attach, and open a home folder as `Recorder.open` does, paired as one of this runtime."""
    attach()
    return Recorder.open(
        home,
        server=server,
        token=token,
        workflow=workflow,
        version=version,
        targets=targets,
        name=name,
        runtime=runtime_version(),
    )


def record(
    recorder: Recorder, agent: Any, *, run_config: Any = None, contract_version: str | None = None
) -> "AgentsRun":
    """Begin to record a run that starts with an agent, in a trace of its own.

    The recording is full only when every tool within reach is wrapped, declared to read, or an agent itself,
    and no hand-over calls code of the program's own. Where that stops being so, the recording is not closed.
    `contract_version`: that of the published topology contract that counts for this run, where it is not the
    workflow's own. Raises RuntimeUnknown, TracingOff, AgentsAmbiguous, RuntimeDiffers for a workflow of
    another runtime, and ValueError for a `run_config` with a trace id and for what is no version.
    """
    attach()
    recorder.declaration.check_runtime(RUNTIME)
    from agents.tracing import gen_trace_id

    from debugger.recorder.openai_agents.graph import graph_of
    from debugger.recorder.openai_agents.pins import described, is_full, is_still_full
    from debugger.recorder.openai_agents.runs import AgentsRun

    graph, run, trace = graph_of(agent), mint("run"), gen_trace_id()
    config = with_trace(run_config, trace)
    written = recorder.record(run, run, OwnGate(run, recorder.answers), contract_version=contract_version)
    was_full = is_full(recorder, graph)
    started = AgentsRun(
        recorder,
        graph,
        written,
        trace=trace,
        thread=trace,
        run_config=config,
        still_full=lambda: not was_full or is_still_full(recorder, graph),
    )
    recorder.answers.add({"t": "run", "run": run, "thread": started.thread})
    declaration = recorder.declaration
    body = {
        "workflow": declaration.uid,
        "workflow_version": declaration.version,
        "runtime": runtime_version(),
        "external_ref": started.external_ref,
        "configuration": described(recorder, graph, config),
        "contract_version": written.contract_version,
        "phase": declaration.phase,
        "recording": "full" if was_full else "partial",
    }
    written.emit("run_started", body, durable=True)
    return started


def with_trace(run_config: Any, trace: str) -> Any:
    """Return a run's configuration with our own trace id: a resume would else go on in its parent's trace."""
    from agents import RunConfig

    config = RunConfig() if run_config is None else run_config
    if config.tracing_disabled:
        raise TracingOff("disabled")
    if config.trace_id is not None:
        raise ValueError("run_config.trace_id: must be ours")
    return replace(config, trace_id=trace)
