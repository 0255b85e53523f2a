"""Takes what a plug-in answered only where it has the form of an answer; anything else is a broken one."""

from typing import Any, Final

from branches.evidence.kinds.forms import (
    DESTINATION_VERSION,
    DIGEST,
    HMAC,
    OPERATION_KEY,
    TERM,
    Schema,
    nullable,
)
from branches.evidence.schema import has_form
from branches.ports import Answer, Baseline, Check, DestinationAnswer, OutcomeCheck, StateMeasurement


class AnswerUnfit(TypeError):
    """A plug-in answered something that is no answer of its port; the message names the member."""


_PARTS: Final[Schema] = {"type": "object", "propertyNames": HMAC, "additionalProperties": DIGEST}
_TERMS: Final[Schema] = {"type": "array", "items": TERM}


_PROBLEM: Final[Schema] = {"type": ["string", "null"], "pattern": "^[a-z][a-z0-9_]{0,47}$"}
_FLAG: Final[Schema] = {"type": "boolean"}


def fit_measurement(found: Any) -> StateMeasurement:
    """Return a probe's answer. Raises AnswerUnfit."""
    if not isinstance(found, StateMeasurement):
        raise AnswerUnfit("measurement")
    _check("problem", _PROBLEM, found.problem)
    _check("reachable", _FLAG, found.reachable)
    _check("fingerprint", nullable(DIGEST), found.fingerprint)
    _check("parts", _PARTS, found.parts)
    return found


def fit_answer(found: Any) -> DestinationAnswer:
    """Return a destination's answer. Raises AnswerUnfit."""
    if not isinstance(found, DestinationAnswer) or not isinstance(found.answer, Answer):
        raise AnswerUnfit("answer")
    _check("problem", _PROBLEM, found.problem)
    _check("fingerprint", nullable(DIGEST), found.fingerprint)
    _check("ref", nullable(HMAC), found.ref)
    _check("version", nullable(DESTINATION_VERSION), found.version)
    return found


def fit_baseline(found: Any) -> Baseline:
    """Return what a verifier says stood there before. Raises AnswerUnfit."""
    if not isinstance(found, Baseline):
        raise AnswerUnfit("baseline")
    _check("problem", _PROBLEM, found.problem)
    _check("reachable", _FLAG, found.reachable)
    _check("version", nullable(DESTINATION_VERSION), found.version)
    return found


def fit_check(found: Any) -> OutcomeCheck:
    """Return a verifier's check. Raises AnswerUnfit."""
    if not isinstance(found, OutcomeCheck) or not isinstance(found.check, Check):
        raise AnswerUnfit("check")
    _check("problem", _PROBLEM, found.problem)
    _check("fresh", _FLAG, found.fresh)
    _check("artifact", nullable(DIGEST), found.artifact)
    _check("version", nullable(DESTINATION_VERSION), found.version)
    _check("operation_key", nullable(OPERATION_KEY), found.operation_key)
    _check("difference", _TERMS, list(found.difference))
    return found


def fit_problem(found: Any) -> str | None:
    """Return what a notifier says stood in its way, or None. Raises AnswerUnfit."""
    _check("problem", _PROBLEM, found)
    return None if found is None else str(found)


def _check(member: str, schema: Schema, value: object) -> None:
    if not has_form(schema, value):
        raise AnswerUnfit(member)
