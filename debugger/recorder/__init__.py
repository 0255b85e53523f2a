"""What runs inside an agent's process: records receipts, runs branches, redeems permits. No Django."""

from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.effects import (
    DestinationRefused,
    Operation,
    OutsideRun,
    current_operation,
)
from debugger.recorder.gates import Hold
from debugger.recorder.handoffs import APPROVAL, OUTCOME, Delegation, Handoffs, Work
from debugger.recorder.names import RuntimeDiffers
from debugger.recorder.recorder import Recorder
from debugger.recorder.recoveries import Recovery, RecoveryRefused
from debugger.recorder.runs import Run
from debugger.recorder.verifying import NothingDelegated, Verifier

__all__ = [
    "APPROVAL",
    "OUTCOME",
    "Delegation",
    "DestinationRefused",
    "GateRefused",
    "GateUnreachable",
    "Handoffs",
    "Hold",
    "NothingDelegated",
    "Operation",
    "OutsideRun",
    "Recorder",
    "Recovery",
    "RecoveryRefused",
    "Run",
    "RuntimeDiffers",
    "Verifier",
    "Work",
    "current_operation",
]
