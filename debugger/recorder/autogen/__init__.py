"""Records teams of AutoGen AgentChat from their message stream; nothing here is imported by the rest."""

from debugger.recorder.autogen.checks import RuntimeUnknown, check_runtime
from debugger.recorder.autogen.opening import open_recorder, record
from debugger.recorder.autogen.runs import Approval, TeamRun, TeamSpent
from debugger.recorder.autogen.saved import SavedUnfit, load_team, save_team
from debugger.recorder.autogen.tools import wrap

__all__ = [
    "Approval",
    "RuntimeUnknown",
    "SavedUnfit",
    "TeamRun",
    "TeamSpent",
    "check_runtime",
    "load_team",
    "open_recorder",
    "record",
    "save_team",
    "wrap",
]
