"""Valid receipts of every kind, made from the schemas themselves, and the places where a value stands."""

import copy
import re
from collections.abc import Iterator
from typing import Any

from branches.evidence import ids
from branches.evidence.schema import SCHEMAS

HMAC = "hmac-sha256:0a1b2c3d:" + "ab" * 32
SHA256 = "sha256:" + "cd" * 32
NAME = "researcher"
MARKER = "CONTENT-MARKER-7f3a secret text"

# Each stands for a sort of content that has been seen to slip through a regular expression.
CANARIES = (
    MARKER,
    "CONTENT-MARKER-7f3a/home/ada/invoices/2026",
    "CONTENT-MARKER-7f3a@example.org",
    "https://desk.example/tickets/CONTENT-MARKER-7f3a?q=1",
    "Bearer CONTENT-MARKER-7f3a",
    "sk-live-CONTENT-MARKER-7f3a-0123456789abcdef",
    "CONTENT-MARKER-7f3a\n",
    "evt_aaaaaaaaaaaaaaaaaaaaaaaa\nCONTENT-MARKER-7f3a",
    "sha256:CONTENT-MARKER-7f3a",
    HMAC + "CONTENT-MARKER-7f3a",
    "2026-11-30T09:00:00Z CONTENT-MARKER-7f3a",
    '{"prompt": "CONTENT-MARKER-7f3a"}',
    "CONTENT-MARKER-7f3a\u202e\u0441\u0435\u043a\u0440\u0435\u0442",
    "C:\\Users\\CONTENT-MARKER-7f3a",
    "+49 151 CONTENT-MARKER-7f3a",
    "' OR 1=1 -- CONTENT-MARKER-7f3a",
)

# From this alternative on everything is null that may be; below it each form of each value comes up.
WITH_NULLS = 5

Path = tuple[str | int, ...]


def sample(kind: str, alternative: int = 0) -> dict[str, Any]:
    """A valid receipt in which everything that may be there is there."""
    return _value(SCHEMAS[kind], alternative)


def samples() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in SCHEMAS:
        for alternative in range(2 * WITH_NULLS):
            yield kind, sample(kind, alternative)


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a value, from the outside in."""
    yield path
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for step, member in members:
        yield from places(member, (*path, step))


def at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def replaced(value: Any, path: Path, by: Any) -> Any:
    changed = copy.deepcopy(value)
    at(changed, path[:-1])[path[-1]] = by
    return changed


def with_key(value: Any, path: Path, key: str, member: Any) -> Any:
    changed = copy.deepcopy(value)
    at(changed, path)[key] = member
    return changed


def _value(schema: dict[str, Any], alternative: int) -> Any:
    if "oneOf" in schema:
        forms = schema["oneOf"]
        return _value(forms[alternative % len(forms)], alternative)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        words = [word for word in schema["enum"] if word is not None]
        return words[alternative % len(words)]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if "null" in kinds and alternative >= WITH_NULLS:
        return None
    kinds = [kind for kind in kinds if kind != "null"]
    kind = kinds[alternative % len(kinds)]
    return _OF_KIND[kind](schema, alternative)


def _object(schema: dict[str, Any], alternative: int) -> dict[str, Any]:
    if "propertyNames" in schema:
        return {NAME: _value(schema["additionalProperties"], alternative)}
    members = {name: _value(member, alternative) for name, member in schema["properties"].items()}
    if members.get("event") == "delegated":
        members |= {"receiver": NAME, "expected_artifact": SHA256}
    return members


def _text(schema: dict[str, Any], _alternative: int) -> str:
    pattern = schema["pattern"]
    for candidate in (HMAC, SHA256, "2026-11-30T09:00:00.5Z", "skip", NAME, "1.2.3"):
        if _matches(pattern, candidate):
            return NAME if "x-declared" in schema else candidate
    return next(each for prefix in ids.PREFIXES if _matches(pattern, each := ids.mint(prefix)))


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text) is not None


_OF_KIND = {
    "object": _object,
    "array": lambda schema, alternative: [_value(schema["items"], alternative)],
    "string": _text,
    "integer": lambda schema, _: max(schema.get("minimum", 0), 7),
    "boolean": lambda *_: True,
}
