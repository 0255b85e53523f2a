"""What a receipt may carry: one closed schema a kind, and refusals that never repeat what they refuse.

The envelope as sent is ``{"v": 1, "event_id": evt_…, "run": run_… | br_…, "kind", "at", "actor",
"writer_seq", "body"}``; the forms of an actor are in ``kinds/envelope.py``, the bodies in ``kinds/``.
A kind of ``OUTSIDE_KINDS`` may be ingested; ``PRODUCT_KINDS`` and ``WORKSPACE_KINDS`` are the product's.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.canonical import ProfileError, canonical_bytes
from branches.evidence.kinds import OUTSIDE_KINDS, PRODUCT_KINDS, WORKSPACE_KINDS
from branches.evidence.kinds.envelope import SCHEMAS
from branches.evidence.kinds.forms import PATTERN_WORDS, Declared, Schema
from branches.evidence.names import cover_names, declared_names, is_declared, timestamps

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

__all__ = [
    "MAX_BODY_BYTES",
    "OUTSIDE_KINDS",
    "PRODUCT_KINDS",
    "SCHEMAS",
    "WORKSPACE_KINDS",
    "Declared",
    "ReceiptError",
    "check_declared",
    "check_sent",
    "cover_names",
    "declared_names",
    "json_schema",
]

MAX_BODY_BYTES: Final = 8 * 1024

_RULES: Final[Mapping[str, str]] = {
    "additionalProperties": "closed",
    "falseSchema": "closed",
    "const": "enum",
    "minimum": "range",
    "maximum": "range",
    "maxLength": "max_length",
    "maxItems": "max_items",
    "minItems": "min_items",
    "maxProperties": "max_items",
    "oneOf": "form",
}


class ReceiptError(ValueError):
    """A receipt that may not be recorded: the dotted field and a rule word, never what stood there.

    A key that we do not know is reported at its parent; a key of a map shows as ``*``.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field or '(whole)'}: {rule}")
        self.field = field
        self.rule = rule


def json_schema(kind: str) -> Schema:
    """The JSON Schema (2020-12) of a kind's whole sent receipt. Raises KeyError for an unknown kind."""
    return SCHEMAS[kind]


def check_sent(sent: object, *, kinds: frozenset[str] | None = None) -> None:
    """Refuse what a receipt may not carry. Raises ReceiptError.

    kinds: the kinds allowed here, such as OUTSIDE_KINDS at ingest; every kind when null. Needs
    ``jsonschema_rs``, so it is the server's to call. Names are looked at by check_declared.
    """
    kind = _kind(sent, kinds)
    if not _validator(kind).is_valid(sent):
        raise _refusal(kind, sent)
    assert isinstance(sent, dict)  # noqa: S101 - _kind has looked
    for field, _, text in timestamps(sent):
        _check_timestamp(field, text)
    _check_profile(kind, sent)


def check_declared(sent: Mapping[str, Any], declared: Mapping[str, frozenset[str]]) -> None:
    """Refuse the first name that the workflow does not declare in its category. Raises ReceiptError."""
    for field, category, name in declared_names(sent):
        if not is_declared(category, name, declared):
            raise ReceiptError(field, "declared")


def has_form(schema: Schema, value: object) -> bool:
    """Whether a single value has the form that a member of a receipt may have."""
    from jsonschema_rs import is_valid

    try:
        return is_valid(schema, value)
    except (ValueError, TypeError):  # no JSON at all
        return False


def _kind(sent: object, kinds: frozenset[str] | None) -> str:
    if not isinstance(sent, dict):
        raise ReceiptError("", "type")
    if "kind" not in sent:
        raise ReceiptError("kind", "required")
    kind = sent["kind"]
    if not isinstance(kind, str):
        raise ReceiptError("kind", "type")
    if kind not in SCHEMAS or (kinds is not None and kind not in kinds):
        raise ReceiptError("kind", "enum")
    return str(kind)


@cache
def _validator(kind: str) -> "Validator":
    import jsonschema_rs

    return jsonschema_rs.validator_for(SCHEMAS[kind])


def _refusal(kind: str, sent: object) -> ReceiptError:
    error = _innermost(next(iter(_validator(kind).iter_errors(sent))))
    path = list(error.instance_path)
    rule = error.kind.name
    if rule == "required":
        return ReceiptError(_field(kind, [*path, _attribute(error.kind, "property")]), "required")
    if rule == "propertyNames":
        inner: ValidationError = _attribute(error.kind, "error")
        return ReceiptError(_field(kind, path), _rule(inner))
    return ReceiptError(_field(kind, path), _rule(error))


def _innermost(error: "ValidationError") -> "ValidationError":
    """Of alternatives told apart by their type, the error in the one whose type was meant."""
    if error.kind.name != "oneOf":
        return error
    alternatives: list[list[ValidationError]] = getattr(error.kind, "context", [])
    meant = [errors for errors in alternatives if errors and not any(map(_is_about_type, errors))]
    return _innermost(meant[0][0]) if len(meant) == 1 else error


def _is_about_type(error: "ValidationError") -> bool:
    if error.kind.name == "required":
        return bool(_attribute(error.kind, "property") == "type")
    return error.instance_path[-1:] == ["type"]


def _rule(error: "ValidationError") -> str:
    rule = error.kind.name
    if rule == "pattern":
        return f"pattern:{PATTERN_WORDS[_attribute(error.kind, 'pattern')]}"
    return _RULES.get(rule, rule)


def _attribute(kind: object, name: str) -> Any:
    return getattr(kind, name)


def _field(kind: str, path: list[str | int]) -> str:
    """The dotted path, with ``*`` for every key that the schema does not name itself."""
    shown: list[str] = []
    schemas: list[Schema] = [SCHEMAS[kind]]
    for step in path:
        forms = [form for schema in schemas for form in (schema, *schema.get("oneOf", ()))]
        if isinstance(step, int):
            shown.append(str(step))
            schemas = [form["items"] for form in forms if "items" in form]
            continue
        named = [form["properties"][step] for form in forms if step in form.get("properties", {})]
        shown.append(step if named else "*")
        schemas = named or [form["additionalProperties"] for form in forms if "propertyNames" in form]
    return ".".join(shown)


def _check_timestamp(field: str, text: str) -> None:
    # The pattern admits the 30th of February, and moments of which there is no UTC.
    try:
        datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ReceiptError(field, "pattern:timestamp") from None


def _check_profile(kind: str, sent: dict[str, Any]) -> None:
    """What a schema cannot say: no 2.0 for 2, and a bounded size."""
    try:
        size = len(canonical_bytes(sent))
    except ProfileError as error:
        steps = [int(step) if step.isdecimal() else step for step in error.field.split(".")]
        raise ReceiptError(_field(kind, steps), error.rule) from None
    if size > MAX_BODY_BYTES and len(canonical_bytes(sent["body"])) > MAX_BODY_BYTES:
        raise ReceiptError("body", "max_bytes")
