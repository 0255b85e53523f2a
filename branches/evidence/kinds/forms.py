"""The few forms a value in a receipt may have; each kind's schema is put together from these.

``x-declared`` marks a name that the run's workflow must declare, in the category given; a keyed digest
may stand in its place. On a map it stands under ``propertyNames``.
"""

from enum import StrEnum
from typing import Any, Final

from branches.evidence.canonical import MAX_INTEGER
from branches.evidence.ids import ID_PATTERN, id_pattern
from branches.evidence.keys import HMAC_PATTERN, SHA256_PATTERN

type Schema = dict[str, Any]

NAME_PATTERN: Final = r"[A-Za-z0-9][A-Za-z0-9_./:@-]{0,95}"
VERSION_PATTERN: Final = r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,31}"
TIMESTAMP_PATTERN: Final = (
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
    r"(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
WORD_PATTERN: Final = "[a-z][a-z0-9_]{0,47}"

# What an error calls a pattern; filled by _text, so that a pattern without a word cannot exist.
PATTERN_WORDS: Final[dict[str, str]] = {}


class Declared(StrEnum):
    """The categories of names; a workflow declares a set of names for each."""

    AGENT = "agent"
    TOOL = "tool"
    MODEL = "model"
    DESTINATION = "destination"
    KIND = "kind"
    PHASE = "phase"
    STATE_KEY = "state_key"
    DEPENDENCY = "dependency"
    OUTCOME = "outcome"
    VALIDATOR = "validator"
    FACT = "fact"
    FACT_WORD = "fact_word"
    REASON = "reason"
    OWNER = "owner"
    RUNTIME = "runtime"
    PROBE = "probe"
    LIMIT = "limit"
    CAPABILITY = "capability"


def _text(word: str, pattern: str) -> Schema:
    anchored = f"^(?:{pattern})$"
    PATTERN_WORDS[anchored] = word
    # The length bounds what a lenient `$` (one that admits a trailing newline) would let through.
    return {"type": "string", "maxLength": 128, "pattern": anchored}


def enum(*words: str) -> Schema:
    """One of these words."""
    return {"type": "string", "enum": list(words)}


def nullable(schema: Schema) -> Schema:
    """The same, or null: the sender may not know it, and not knowing reads as nothing good."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    loosened = {**schema, "type": [*kinds, "null"]}
    if "enum" in schema:
        loosened["enum"] = [*schema["enum"], None]
    return loosened


def integer(minimum: int = 0) -> Schema:
    """A whole number below 2^53."""
    return {"type": "integer", "minimum": minimum, "maximum": MAX_INTEGER}


def name(category: Declared) -> Schema:
    """A name that the workflow declares in this category, or its keyed digest."""
    return {**_text("name", NAME_PATTERN), "x-declared": str(category)}


def an_id(*prefixes: str) -> Schema:
    """An id of ours, of one of these sorts."""
    return _text("id", id_pattern(*prefixes))


def record(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these members and no other."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def mapping(category: Declared, member: Schema, at_most: int) -> Schema:
    """An object whose keys are declared names."""
    return {
        "type": "object",
        "propertyNames": name(category),
        "additionalProperties": member,
        "maxProperties": at_most,
    }


def listing(member: Schema, at_most: int, at_least: int = 0) -> Schema:
    """A list with a bounded number of members."""
    return {"type": "array", "items": member, "minItems": at_least, "maxItems": at_most}


def one_of(*alternatives: Schema) -> Schema:
    """One of several records, told apart by the word in their ``type``."""
    return {"type": "object", "oneOf": list(alternatives)}


BOOLEAN: Final[Schema] = {"type": "boolean"}
HMAC: Final = _text("hmac", HMAC_PATTERN)
SHA256: Final = _text("sha256", SHA256_PATTERN)
# Only where the content has enough entropy of its own: a tree of files, an artifact, a tool registry.
DIGEST: Final = _text("digest", f"{SHA256_PATTERN}|{HMAC_PATTERN}")
VERSION: Final = _text("version", VERSION_PATTERN)
TIMESTAMP: Final[Schema] = {**_text("timestamp", TIMESTAMP_PATTERN), "x-timestamp": "rfc3339"}
WORD: Final = _text("word", WORD_PATTERN)
# A term of an expectation: a word of ours, or the keyed digest of a name of somebody else's.
TERM: Final = _text("term", f"{WORD_PATTERN}|{HMAC_PATTERN}")
ANY_ID: Final = _text("id", ID_PATTERN)
RUN: Final = an_id("run", "br")
BRANCH: Final = an_id("br")
EVENT: Final = an_id("evt")
PERMIT: Final = an_id("prm")
ATTEMPT: Final = an_id("att")
RECORDER: Final = an_id("rec")
REQUEST: Final = an_id("req")
DECISION: Final = an_id("dec")
PERSON: Final = an_id("per")
WORKFLOW: Final = an_id("wf")
# The root's operation key; a deliberate repeat adds its branch, so that it is an operation of its own.
OPERATION_KEY: Final = _text("operation_key", rf"{HMAC_PATTERN}(?:\+{id_pattern('br')})?")
EFFECT_DECISION: Final = _text("decision", f"skip|repeat|{id_pattern('dec')}")
DESTINATION_VERSION: Final[Schema] = {
    **VERSION,
    "type": ["string", "integer"],
    "minimum": 0,
    "maximum": MAX_INTEGER,
}
EFFECT_CLASS: Final = enum("read", "reversible", "irreversible", "unknown")
EDIT_CLASS: Final = enum("add_detail", "simplify_task", "change_plan", "configuration", "other")
CHANGE_CLASS: Final = enum("C1", "C2", "C3", "C4", "CP")
CHECK: Final = enum("passed", "failed", "unreachable")
RESTORE_RESULT: Final = enum("matched", "drifted", "unreachable", "not_restored")
