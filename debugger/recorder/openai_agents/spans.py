"""The tracing processor: takes what the SDK's spans say of a run to whoever records that run."""

import threading
from typing import Any, Protocol

from agents.tracing import TracingProcessor, get_trace_provider

from debugger.recorder.openai_agents.checks import TracingOff, processors


class Listener(Protocol):
    """Records one run."""

    def span_began(self, span: Any) -> None:
        """Take a span that has just begun."""
        ...

    def span_ended(self, span: Any) -> None:
        """Take a span that has just ended."""
        ...

    def failed(self, error: Exception) -> None:
        """Take what went wrong while a span was taken: the SDK itself would only log it."""
        ...


class SpanProcessor(TracingProcessor):
    """Knows which trace is which run's; spans of other traces are nobody's and are not looked at."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._listeners: dict[str, Listener] = {}

    def listen(self, trace: str, listener: Listener) -> None:
        """Let a run hear of its trace."""
        with self._guard:
            self._listeners[trace] = listener

    def leave(self, trace: str) -> None:
        """Forget a run that has stopped."""
        with self._guard:
            self._listeners.pop(trace, None)

    def on_trace_start(self, trace: Any) -> None:
        """Nothing: a trace says nothing that its spans do not."""

    def on_trace_end(self, trace: Any) -> None:
        """Nothing, likewise."""

    def on_span_start(self, span: Any) -> None:
        """Pass a span on."""
        if (listener := self._of(span)) is not None:
            try:
                listener.span_began(span)
            except Exception as error:  # noqa: BLE001 - the SDK swallows it; the run must not go on unrecorded
                listener.failed(error)

    def on_span_end(self, span: Any) -> None:
        """Pass a span on."""
        if (listener := self._of(span)) is not None:
            try:
                listener.span_ended(span)
            except Exception as error:  # noqa: BLE001 - as above
                listener.failed(error)

    def shutdown(self) -> None:
        """Nothing: receipts lie in the spool already."""

    def force_flush(self) -> None:
        """Nothing, likewise."""

    def _of(self, span: Any) -> Listener | None:
        with self._guard:
            return self._listeners.get(span.trace_id)


PROCESSOR = SpanProcessor()


def add_processor() -> None:
    """Add our processor to those that the SDK tells, unless it is one. Raises TracingOff."""
    provider = get_trace_provider()
    if PROCESSOR not in processors(provider):
        provider.register_processor(PROCESSOR)
    check_tracing()


def check_tracing() -> None:
    """See that the SDK would tell us of a run that begins now. Raises TracingOff."""
    provider = get_trace_provider()
    if PROCESSOR not in processors(provider):
        raise TracingOff("processor_removed")
    if provider.create_trace("branchgate").export() is None:
        raise TracingOff("disabled")
    if provider.get_current_trace() is not None:
        raise TracingOff("another_trace_is_open")
