"""The pure decisions: the same facts give the same verdict, without clock, database or network."""

from branches.rules.facts import FactError
from branches.rules.gates import judge_branch, parse_branch
from branches.rules.handoffs import judge_handoff, parse_handoff
from branches.rules.instants import Instant
from branches.rules.lines import Kind, classify_lines
from branches.rules.stops import judge_stop, parse_stop
from branches.rules.topology import judge_topology, parse_topology

__all__ = [
    "FactError",
    "Instant",
    "Kind",
    "classify_lines",
    "judge_branch",
    "judge_handoff",
    "judge_stop",
    "judge_topology",
    "parse_branch",
    "parse_handoff",
    "parse_stop",
    "parse_topology",
]
