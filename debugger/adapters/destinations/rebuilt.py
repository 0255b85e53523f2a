"""Digests over what a destination shows: the payload as the recorder makes it, artifacts, references."""

import json
from collections.abc import Mapping
from typing import Any, Final

from branches.evidence.domains import CONTENT, NAME, PAYLOAD, REF
from branches.ports import Answer, DestinationAnswer, Question, Target
from debugger.adapters.destinations.json_answer import ABSENT, select
from debugger.adapters.options import text, text_table, texts
from debugger.adapters.outbound import Unreachable

_WORD_DIGITS: Final = 32


def payload(target: Target, tool: str, value: Any) -> str | None:
    """Return the payload's digest as the recorder makes it, or None where no payload is declared.

    Raises TargetUnfit, and Unreachable where the destination does not show a declared argument.
    """
    declared = target.options.get("payload")
    if isinstance(declared, Mapping):
        declared = declared.get(tool)
    if declared is None:
        return None
    fields = text_table(target, "fields")
    arguments = {name: select(value, fields.get(name, name)) for name in texts(declared, "payload")}
    if ABSENT in arguments.values():
        raise Unreachable("field_missing")
    return target.key.digest(PAYLOAD, f"{tool}\0".encode() + plain_json(arguments))


def found(
    target: Target, question: Question, value: Any, *, content: str, version: str | None, ref: str | None
) -> DestinationAnswer:
    """Answer of something that is there: present, or changed where another payload is kept under the key."""
    rebuilt = payload(target, question.tool, value)
    differs = rebuilt is not None and question.payload is not None and rebuilt != question.payload
    return DestinationAnswer(
        Answer.CHANGED if differs else Answer.PRESENT,
        fingerprint=rebuilt or content,
        version=version,
        ref=ref,
    )


def ref_at(target: Target, value: Any, option: str = "ref") -> str | None:
    """Return the destination's own id of something as HMAC, or None where none is declared or shown."""
    if option not in target.options:
        return None
    shown = select(value, text(target, option))
    is_id = isinstance(shown, (str, int)) and not isinstance(shown, bool)
    return target.key.digest(REF, str(shown).encode("utf-8", "surrogatepass")) if is_id else None


def content_of(target: Target, value: Any) -> str:
    """Return the digest of a JSON value."""
    return target.key.digest(CONTENT, plain_json(value))


def name_of(target: Target, name: str) -> str:
    """Return the HMAC by which a term of an expectation is named in a difference."""
    return target.key.digest(NAME, name.encode("utf-8", "surrogatepass"))


def word_of(target: Target, domain: str, content: bytes | str) -> str:
    """Return 32 digits that tell states apart and have no order, short enough for a version."""
    return target.key.digest(domain, content)[-64:][:_WORD_DIGITS]


def plain_json(value: Any) -> bytes:
    """Return JSON in the form that the recorder hashes. Raises Unreachable where it is too deep."""
    try:
        written = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        raise Unreachable("unparsable") from None
    return written.encode("utf-8", "surrogatepass")  # a lone surrogate is no reason to fail
