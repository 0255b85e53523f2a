"""What is not there of a run, so far as something is concluded from it."""

from collections.abc import Iterator, Sequence
from typing import Final

from debugger.adapters.runtimes.otlp_attributes import FINISH
from debugger.adapters.runtimes.otlp_roles import Role
from debugger.adapters.runtimes.otlp_sampling import Gap, differs
from debugger.adapters.runtimes.otlp_tree import Placed

SAMPLED: Final = "sampled"
TRUNCATED: Final = "truncated"

_PASSED_ON: Final = frozenset({Gap.ATTRIBUTES, Gap.EVENTS, Gap.LINKS})


def words_of(each: Placed) -> Iterator[str]:
    """Yield what is to be said of the run of a span: that it was sampled, that edges may be missing."""
    span = each.span
    if Gap.SAMPLED in span.gaps or (each.parent is not None and differs(span.flags, each.parent.span.flags)):
        yield SAMPLED
    if Gap.SPANS in span.gaps or span.gaps & _behind_edges(each):
        yield TRUNCATED


def _behind_edges(each: Placed) -> frozenset[Gap]:
    """Return which parts of a span edges are read from; one without attributes may have been an agent's."""
    if each.role in {Role.AGENT, Role.WORKFLOW}:
        return _PASSED_ON
    return frozenset({Gap.ATTRIBUTES}) if each.role in {Role.OTHER, Role.FOREIGN} else frozenset()


def may_hide_an_end(members: Sequence[Placed]) -> bool:
    """Whether an interrupt, error or limit of a loop may be among what is not there.

    Events say that it waits or reached a limit, attributes what a span is and why it failed; of a model
    call only the last one's reason to finish counts.
    """
    if any(each.span.gaps & {Gap.EVENTS, Gap.SPANS} for each in members):
        return True
    chats = [each for each in members if each.role is Role.CHAT]
    last = max(chats, key=lambda each: (each.span.end, each.key), default=None)
    return any(
        Gap.ATTRIBUTES in each.span.gaps
        and (each.role is not Role.CHAT or (each is last and FINISH not in each.span.attributes))
        for each in members
    )
