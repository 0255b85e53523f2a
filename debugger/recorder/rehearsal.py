"""Where an edit is applied no recorded tool may be called: a router that is asked again belongs to no run."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

ROUTER_CALLS_TOOL: Final = "router_calls_tool"
ROUTER_WRITES_STORE: Final = "router_writes_store"


@dataclass(slots=True, eq=False)
class Attempts:
    """What code that runs without a run tried to do; it may have swallowed the refusal."""

    rule: str | None = None


# The runtime copies the context into the threads it starts, and so this too.
_here: ContextVar[Attempts | None] = ContextVar("branchgate_no_run", default=None)
_open: Final[list[Attempts]] = []
_guard: Final = threading.Lock()


@contextmanager
def no_run() -> Iterator[Attempts]:
    """Let everything inside belong to no run: recorded tools raise, and the runtime's tracing is off.

    A raw thread has no such context. While anything is open here, what it calls is taken for nobody's; a
    raw thread that a router leaves behind is past every bound.
    """
    attempts = Attempts()
    token = _here.set(attempts)
    with _guard:
        _open.append(attempts)
    try:
        with ExitStack() as stack:
            _quieten(stack)
            yield attempts
    finally:
        with _guard:
            _open.remove(attempts)
        _here.reset(token)


def is_here() -> bool:
    """Whether this code belongs to no run; asked by what would act, and noted."""
    if (attempts := _here.get()) is None:
        return False
    attempts.rule = attempts.rule or ROUTER_CALLS_TOOL
    return True


def is_anywhere() -> bool:
    """Whether any thread works without a run now: then a raw thread's run cannot be told."""
    with _guard:
        return bool(_open)


def _quieten(stack: ExitStack) -> None:
    try:
        from langsmith import tracing_context
    except ImportError:
        return
    stack.enter_context(tracing_context(enabled=False))
