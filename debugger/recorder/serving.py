"""Holds the long poll: resumes branches, answers requests for content, hears which branches must stop."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from debugger.recorder import branching, content, journal
from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.stores import StoreUnsupported

if TYPE_CHECKING:
    from debugger.recorder import Recorder

_log = logging.getLogger("branchgate.recorder")
_LONGEST_PAUSE_S: Final = 30.0
_RETRY_S: Final = 2.0
_MOST_TRIES: Final = 20

type Resume = Callable[[Mapping[str, Any], Callable[[str], bool]], str]
type Show = Callable[[Mapping[str, Any]], str]


class Serving:
    """Serves one graph until told to stop; branches run beside the poll, at most `at_once` of them.

    `resume` takes a permit (and says whether a branch must stop), `show` answers a request for content; both
    are LangGraph's where none is given.
    """

    def __init__(
        self,
        recorder: "Recorder",
        graph: Any,
        *,
        context: Callable[[], Any] = lambda: None,
        at_once: int = 2,
        wait: int = 20,
        resume: Resume | None = None,
        show: Show | None = None,
    ) -> None:
        self._recorder = recorder
        self._graph = graph
        self._context = context
        self._wait = wait
        self._take_permit = resume or self._resume_graph
        self._show_content = show or self._show_graph
        self._stop = threading.Event()
        self._stopped_branches: set[str] = set()
        self._taken: set[str] = set()
        self._tries: Counter[str] = Counter()
        self._guard = threading.Lock()
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="branchgate-branch")

    def stop(self) -> None:
        """End at once; running branches stop before their next step."""
        self._stop.set()

    def run(self) -> None:
        """Serve until stopped. Branches that were begun and not started go on first."""
        self._take_unfinished()
        # The poll is not waited for at the end: it may hold for as long as the server likes.
        threading.Thread(target=self._poll, name="branchgate-poll", daemon=True).start()
        try:
            self._stop.wait()
        except KeyboardInterrupt:  # a program without a signal handler of its own
            self._stop.set()
        self._pool.shutdown(wait=True)

    def _poll(self) -> None:
        pause = 0.5
        while not self._stop.is_set():
            try:
                work = self._recorder.client.work(self._wait)
            except (GateUnreachable, GateRefused, RuntimeError) as error:
                _log.warning("gate: %s", error.rule if isinstance(error, GateRefused) else "unreachable")
                self._stop.wait(pause)
                pause = min(_LONGEST_PAUSE_S, pause * 2)
                continue
            pause = 0.5
            if not self._do(work):
                self._stop.wait(0.5)  # what it names is known already; do not spin on it
            self._take_unfinished()

    def _take_unfinished(self) -> None:
        for envelope in journal.unfinished(self._recorder.home / "branches"):
            self._take(envelope)

    def _do(self, work: Mapping[str, Any]) -> bool:
        """Do what a poll brought; returns whether anything of it was new, or nothing was named at all."""
        stops = set(work.get("stop", ()))
        is_new = bool(stops - self._stopped_branches) or not (stops or work.get("permits"))
        self._stopped_branches |= stops
        for envelope in work.get("permits", ()):
            is_new = self._take(envelope) or is_new
        for request in work.get("content", ()):
            is_new = True
            _log.info("content: %s", self._show(request))
        return is_new

    def _show(self, request: Mapping[str, Any]) -> str:
        try:
            if request["kind"] == "edit":
                return content.show_edit(self._recorder, request)
            return self._show_content(request)
        except Exception:  # noqa: BLE001 - a foreign store's fault must not end the poll
            return "failed"

    def _take(self, envelope: Mapping[str, Any]) -> bool:
        own = str(envelope.get("payload"))
        with self._guard:
            if own in self._taken or self._tries[own] == _MOST_TRIES or self._stop.is_set():
                return False
            self._taken.add(own)
            self._tries[own] += 1
        self._pool.submit(self._resume, own, envelope)
        return True

    def _resume(self, own: str, envelope: Mapping[str, Any]) -> None:
        try:
            word = self._take_permit(envelope, self._is_stopped)
        except StoreUnsupported:
            word = "store_unsupported"
        except Exception as error:  # noqa: BLE001 - the recorder outlives a branch
            word = f"failed_{type(error).__name__}"
        _log.info("branch: %s", word)
        if word in {"gate_unreachable", "busy"} or word.startswith("failed_"):
            self._stop.wait(_RETRY_S)
            with self._guard:
                self._taken.discard(own)

    def _resume_graph(self, envelope: Mapping[str, Any], is_stopped: Callable[[str], bool]) -> str:
        return branching.resume(
            self._recorder, self._graph, envelope, context=self._context, is_stopped=is_stopped
        )

    def _show_graph(self, request: Mapping[str, Any]) -> str:
        return content.answer(self._recorder, self._graph, request)

    def _is_stopped(self, branch: str) -> bool:
        return self._stop.is_set() or branch in self._stopped_branches
