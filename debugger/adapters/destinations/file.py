"""A file below a declared root, or an object of an HTTP store, by a name that an operation key leads to.

Options of a destination: `root`, and `path` below it with `{operation_key}` (a colon of the key written as a
hyphen), `witness` (a name that the root must hold: an unmounted volume is not an empty one); or `url` with
`{operation_key}`, `method` ("GET", or "HEAD" for what is larger than 64 kB), `found` ([200]), `absent`
(statuses), `auth_env`, `allow`; `payload` and `fields` as http_json has them, over `sha256`, `size`, `text`
and `json` (dotted further).

Options of a verifier: the same places, with or without the key; `expected` (expected outcome ->
{`content_type`, `min_bytes`, `digest` ("sha256:" + hex), `json_schema`}, each optional).
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from branches.evidence.domains import REF
from branches.ports import Answer, Arrival, Baseline, DestinationAnswer, OutcomeCheck, Question, Target
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations import artifact_outcome, files, stores
from debugger.adapters.destinations.artifact_outcome import content_of
from debugger.adapters.destinations.content_types import has_type, is_known
from debugger.adapters.destinations.json_answer import parsed
from debugger.adapters.destinations.rebuilt import found
from debugger.adapters.destinations.stores import Seen
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable

_TERMS: Final = frozenset({"content_type", "min_bytes", "digest", "json_schema"})


class FileDestination:
    """Asks a folder or a store for what lies under an operation's name."""

    limits = (
        "A file that was deleted or moved since looks as if it never was, and nothing says who wrote the one"
        " that is there."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what lies there now; whatever proves nothing is `unknown`."""
        return answer_of(lambda: _answer(target, question))

    def lists(self, target: Target) -> bool:
        """Whether the files are in a folder: a store is not listed."""
        return "path" in target.options and "url" not in target.options

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return the files of the path's form written since a moment; None for a store."""
        try:
            template = stores.template_of(target, needs_key=True)
            if "url" in target.options:
                return None
            listed = files.listed(target, template, every=True)
        except (Unreachable, TargetUnfit):
            return None
        arrived = [(path, datetime.fromtimestamp(float(at), UTC)) for path, at in listed]
        return [
            Arrival(
                target.key.digest(REF, path.encode("utf-8", "surrogateescape")), template.key_in(path), at
            )
            for path, at in arrived
            if at >= since
        ]


class FileVerifier:
    """Looks whether a file or an object is newer than the baseline, and what was expected."""

    limits = "It proves form, size and digest of what lies there, not that its content is right."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return when the artifact was written, with a word for its content."""
        del expected
        return baseline_of(lambda: artifact_outcome.baseline(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer artifact that fits every term."""
        return check_of(
            lambda: artifact_outcome.checked(
                target, expected, baseline_version, operation_keys, _TERMS, _differing
            )
        )


def _answer(target: Target, question: Question) -> DestinationAnswer:
    name = stores.name_of(target, stores.template_of(target, needs_key=True), question.operation_key)
    seen = stores.look(target, name)
    if seen is None:
        return DestinationAnswer(Answer.ABSENT)
    return found(
        target,
        question,
        _shown(seen) if "payload" in target.options else {},
        content=content_of(target, seen),
        version=seen.artifact.at or None,
        ref=target.key.digest(REF, name),
    )


def _shown(seen: Seen) -> dict[str, Any]:
    """Return what a payload can be rebuilt from: text and JSON only where the content is that."""
    shown: dict[str, Any] = {"sha256": seen.artifact.sha256, "size": seen.artifact.size}
    if seen.artifact.size <= len(seen.artifact.head):
        try:
            shown["text"] = seen.artifact.head.decode("utf-8")
            shown["json"] = parsed(seen.artifact.head)
        except (UnicodeDecodeError, Unreachable):
            pass
    return shown


def _differing(target: Target, seen: Seen, wanted: Mapping[str, Any]) -> list[str]:
    del target
    return sorted(term for term, value in wanted.items() if not _fits(seen, term, value))


def _fits(seen: Seen, term: str, value: Any) -> bool:
    """Whether one term is met. Raises TargetUnfit for a term of the wrong form."""
    artifact = seen.artifact
    if term == "min_bytes" and isinstance(value, int) and not isinstance(value, bool):
        return artifact.size >= value
    if term == "json_schema" and isinstance(value, Mapping):
        return _fits_schema(seen, value)
    if term == "digest" and isinstance(value, str) and value.startswith("sha256:"):
        if artifact.sha256.startswith("etag:"):
            raise TargetUnfit("method", "GET")
        return f"sha256:{artifact.sha256}" == value
    if term == "content_type" and isinstance(value, str) and is_known(value):
        return has_type(seen, value)
    raise TargetUnfit("expected", term)


def _fits_schema(seen: Seen, schema: Mapping[str, Any]) -> bool:
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(schema), offline=True)
    except (ValueError, jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError):
        raise TargetUnfit("expected", "json_schema") from None
    try:
        value = parsed(seen.artifact.whole)
    except Unreachable as error:
        if error.problem == "unparsable":
            return False
        raise
    try:
        return bool(validator.is_valid(value))
    except (ValueError, RecursionError):
        return False
