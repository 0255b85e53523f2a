"""What an MCP server says, held to the protocol before anything is made of it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

PROTOCOLS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
"""The released versions of the protocol; what another one means by a list of tools nobody here has seen."""
COMPLETE: Final = "complete"
UNKNOWN_PROTOCOL: Final = "protocol_unknown"
MALFORMED: Final = "answer_malformed"
NO_TOOLS: Final = "no_tools_offered"
FAILED: Final = "server_failed"
_UNSUPPORTED: Final = -32022
_REFUSED_VERSION: Final = ("Unsupported protocol version", "No mutually supported")


class AnswerUnfit(Exception):
    """This is no answer to `tools/list`."""


def page_of(answer: Mapping[str, Any]) -> tuple[list[Any], str | None]:
    """Return the tools of one page and where the next begins, if there is one. Raises AnswerUnfit."""
    tools, cursor = answer.get("tools"), answer.get("nextCursor")
    if answer.get("resultType", COMPLETE) != COMPLETE or not isinstance(tools, list):
        raise AnswerUnfit
    if cursor is not None and not isinstance(cursor, str):
        raise AnswerUnfit
    return tools, cursor or None


def problem_of(error: BaseException) -> str:
    """Return a closed word for why asking failed; what the server said of it is content."""
    found = [each for single in _singles(error) for each in _problems(single)]
    return found[0] if found else FAILED


def _problems(error: BaseException) -> Iterator[str]:
    code = getattr(error, "code", None)
    if code == _UNSUPPORTED or (isinstance(error, RuntimeError) and str(error).startswith(_REFUSED_VERSION)):
        yield UNKNOWN_PROTOCOL
    elif isinstance(error, AnswerUnfit) or type(error).__name__ == "ValidationError":
        yield MALFORMED


def _singles(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _singles(each)
    else:
        yield error
