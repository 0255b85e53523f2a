"""The lease of a running branch, asked for before every step."""

import threading
import time
from typing import TYPE_CHECKING

from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.stops import StopAsked

if TYPE_CHECKING:
    from debugger.recorder import Recorder


class Lease:
    """The one lease of a branch; a gate that stays away longer than the lease stops the branch."""

    def __init__(self, recorder: "Recorder", branch: str, attempt: str) -> None:
        self._recorder = recorder
        self._branch = branch
        self._attempt = attempt
        self._pause = threading.Event()
        self.seconds = 30.0

    def renew(self) -> None:
        """Ask the gate, again and again while it is away, for at most the lease. Raises StopAsked."""
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                answer = self._recorder.client.lease(self._branch, self._attempt)
            except GateUnreachable:
                if time.monotonic() >= deadline:
                    raise StopAsked("stop: gate_unreachable") from None
                self._pause.wait(0.5)
                continue
            except GateRefused:
                raise StopAsked("stop: lease_refused") from None
            if answer.get("go") is not True:
                raise StopAsked("stop: lease")
            return
