"""What a plug-in's silence or breaking comes to, in our words, and whether asking again could mend it."""

from typing import Final

BREAKS: Final = (Exception, SystemExit)
"""What a plug-in may raise: it is somebody else's code, and none of it ends our work."""
_BROKE: Final = "failed:"
_NEVER_BETTER: Final = frozenset({"target_missing", "target_unfit"})


class PluginBroke(Exception):
    """A plug-in raised: that nobody knows is recorded, and this says of which sort its error was."""


def broke(error: BaseException) -> str:
    """Return the problem of an answer that a plug-in did not give.

    Its words may hold content, and so may the name of a class of its own: only Python's are said.
    """
    known = next((each for each in type(error).__mro__ if each.__module__ == "builtins"), Exception)
    return f"{_BROKE}{known.__name__}"


def may_answer_later(problem: str | None) -> bool:
    """Whether asking again could mend a problem: not a place that is wrong, nor a plug-in that breaks."""
    return problem not in _NEVER_BETTER and not (problem or "").startswith(_BROKE)


def report_broken(problem: str | None) -> None:
    """Raise PluginBroke where a problem is one; whatever is to be recorded has been."""
    if problem is not None and problem.startswith(_BROKE):
        raise PluginBroke(problem)
