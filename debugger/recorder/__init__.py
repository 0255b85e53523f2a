"""What runs inside an agent's process: records receipts, runs branches, redeems permits. No Django."""

from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.effects import (
    DestinationRefused,
    Operation,
    OutsideRun,
    current_operation,
)
from debugger.recorder.gates import Hold
from debugger.recorder.recorder import Recorder
from debugger.recorder.runs import Run

__all__ = [
    "DestinationRefused",
    "GateRefused",
    "GateUnreachable",
    "Hold",
    "Operation",
    "OutsideRun",
    "Recorder",
    "Run",
    "current_operation",
]
