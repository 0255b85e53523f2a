"""The names in a receipt: where they stand, in which category, and their covering by a keyed digest."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from branches.evidence.canonical import NAME
from branches.evidence.ids import is_id
from branches.evidence.keys import HmacKey, is_digest, is_hmac
from branches.evidence.kinds.envelope import SCHEMAS
from branches.evidence.kinds.forms import Declared, Schema

type FoundName = tuple[str, str, str]
type Visit = Callable[[Any, str, list[FoundName]], None]

# The product's own words need no declaration: they say nothing of anyone's work.
BUILT_IN: Final[Mapping[str, frozenset[str]]] = {
    Declared.RUNTIME: frozenset(
        {"langgraph", "autogen", "agdebugger", "openai-agents", "ai-sdk", "otlp", "mcp", "other"}
    ),
}
_PEOPLE: Final = (Declared.OWNER, Declared.VALIDATOR)


def declared_names(sent: Mapping[str, Any]) -> list[FoundName]:
    """(field, category, name) of every name in a receipt that the workflow must declare.

    Keyed digests and ids of people are no names. Keys of a map are found at the map's own field.
    A receipt of an unknown kind, or that check_sent refuses, has the names that can be found.
    """
    found: list[FoundName] = []
    visit = _NAMES.get(sent.get("kind", ""))
    if visit is not None:
        visit(sent, "", found)
    return found


def timestamps(sent: Mapping[str, Any]) -> list[FoundName]:
    """(field, "rfc3339", text) of every timestamp in a receipt."""
    found: list[FoundName] = []
    visit = _TIMESTAMPS.get(sent.get("kind", ""))
    if visit is not None:
        visit(sent, "", found)
    return found


def is_declared(category: str, name: str, declared: Mapping[str, frozenset[str]]) -> bool:
    """Whether a name is the workflow's, or the product's own."""
    return name in declared.get(category, ()) or name in BUILT_IN.get(category, ())


def cover_names(
    sent: Mapping[str, Any], declared: Mapping[str, frozenset[str]], key: HmacKey
) -> dict[str, Any]:
    """A copy of the receipt in which every undeclared name is replaced by its keyed digest."""

    def cover(category: str, name: str) -> str:
        if is_no_name(category, name) or is_declared(category, name, declared):
            return name
        return cover_name(key, category, name)

    schema = SCHEMAS.get(sent.get("kind", ""))
    covered: dict[str, Any] = dict(sent) if schema is None else _covered(schema, sent, cover)
    return covered


def cover_name(key: HmacKey, category: str, name: str) -> str:
    """The keyed digest that stands in place of a name."""
    return key.digest(NAME, f"{category}\0{name}")


def is_no_name(category: str, text: str) -> bool:
    """Whether what stands in a name's place needs no declaration: a keyed digest, or a person's id."""
    if is_hmac(text):
        return True
    if category == Declared.FACT_WORD:
        return is_digest(text)
    return category in _PEOPLE and is_id(text, "per")


def _covered(schema: Schema, value: Any, cover: Callable[[str, str], str]) -> Any:
    if isinstance(value, str):
        return cover(schema["x-declared"], value) if "x-declared" in schema else value
    if isinstance(value, list):
        return [_covered(schema.get("items", {}), member, cover) for member in value]
    if not isinstance(value, Mapping):
        return value
    form = _chosen(schema, value)
    category = form.get("propertyNames", {}).get("x-declared")
    other = form.get("additionalProperties") or {}
    return {
        cover(category, key) if category else key: _covered(
            form.get("properties", {}).get(key, other), member, cover
        )
        for key, member in value.items()
    }


def _chosen(schema: Schema, value: Mapping[str, Any]) -> Schema:
    """The alternative that the value's type names, or the schema itself."""
    for alternative in schema.get("oneOf", ()):
        if value.get("type") in alternative["properties"]["type"]["enum"]:
            return alternative  # type: ignore[no-any-return]
    return schema


def _compile(schema: Schema, marker: str) -> Visit | None:
    """A function that collects the marked texts of a value; null where the schema marks none."""
    if marker in schema:
        return _leaf(schema[marker])
    if "oneOf" in schema:
        return _alternatives(schema, marker)
    if "items" in schema:
        return _members(_compile(schema["items"], marker))
    if "properties" in schema:
        return _object(schema, marker)
    if "propertyNames" in schema:
        return _map(schema, marker)
    return None


def _leaf(category: str) -> Visit:
    def visit(value: Any, path: str, found: list[FoundName]) -> None:
        if type(value) is str and not is_no_name(category, value):
            found.append((path, category, value))

    return visit


def _alternatives(schema: Schema, marker: str) -> Visit | None:
    by_type = {
        word: visit
        for alternative in schema["oneOf"]
        if (visit := _compile(alternative, marker)) is not None
        for word in alternative["properties"]["type"]["enum"]
    }

    def visit_chosen(value: Any, path: str, found: list[FoundName]) -> None:
        word = value.get("type") if isinstance(value, dict) else None
        chosen = by_type.get(word) if isinstance(word, str) else None
        if chosen is not None:
            chosen(value, path, found)

    return visit_chosen if by_type else None


def _members(member: Visit | None) -> Visit | None:
    if member is None:
        return None

    def visit(value: Any, path: str, found: list[FoundName]) -> None:
        if isinstance(value, list):
            for index, each in enumerate(value):
                member(each, f"{path}.{index}", found)

    return visit


def _object(schema: Schema, marker: str) -> Visit | None:
    visits = [
        (name, visit)
        for name, member in schema["properties"].items()
        if (visit := _compile(member, marker)) is not None
    ]

    def visit_object(value: Any, path: str, found: list[FoundName]) -> None:
        if not isinstance(value, dict):
            return
        for name, each in visits:
            member = value.get(name)
            if member is not None:
                each(member, f"{path}.{name}" if path else name, found)

    return visit_object if visits else None


def _map(schema: Schema, marker: str) -> Visit | None:
    on_key = _compile(schema["propertyNames"], marker)
    on_member = _compile(schema["additionalProperties"], marker)

    def visit(value: Any, path: str, found: list[FoundName]) -> None:
        if not isinstance(value, dict):
            return
        for key, member in value.items():
            if on_key is not None:
                on_key(key, path, found)
            if on_member is not None:
                on_member(member, f"{path}.*", found)

    return None if on_key is None and on_member is None else visit


def _compile_all(marker: str) -> dict[str, Visit]:
    return {
        kind: visit for kind, schema in SCHEMAS.items() if (visit := _compile(schema, marker)) is not None
    }


_NAMES: Final = _compile_all("x-declared")
_TIMESTAMPS: Final = _compile_all("x-timestamp")
