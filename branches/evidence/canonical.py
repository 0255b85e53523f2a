"""The one byte form of a value, and digests over it that are separated by what they name.

The profile is RFC 8785 without its hard parts: no floats, integers below 2^53, ASCII keys, at most
twelve levels, no lone surrogates. Within it three writers agree byte for byte (``rfc8785``, ``orjson``,
``json``), which a property test holds them to; the fastest that is installed is used.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

try:  # on the server only; an agent's environment has the standard library's writer
    import orjson
except ImportError:  # pragma: no cover - exercised in a process of its own
    orjson = None  # type: ignore[assignment]

type JsonValue = dict[str, JsonValue] | list[JsonValue] | str | int | bool | None

MAX_DEPTH: Final = 12
MAX_INTEGER: Final = 2**53 - 1
MAX_BYTES: Final = 64 * 1024
KEY_PATTERN: Final = r"[A-Za-z0-9_][A-Za-z0-9_./:@+-]{0,127}"

RECEIPT: Final = "branchgate/receipt/v1"
SENT: Final = "branchgate/sent/v1"
SUBJECT: Final = "branchgate/subject/v1"
FACTS: Final = "branchgate/facts/v1"
CONFIGURATION: Final = "branchgate/configuration/v1"
EDIT: Final = "branchgate/edit/v1"
DECLARATION: Final = "branchgate/declaration/v1"
CONTRACT: Final = "branchgate/contract/v1"
TOPOLOGY: Final = "branchgate/topology/v1"
FINGERPRINT: Final = "branchgate/fingerprint/v1"
POLICY: Final = "branchgate/policy/v1"
NOTE: Final = "branchgate/note/v1"
PAYLOAD: Final = "branchgate/payload/v1"
OPERATION: Final = "branchgate/operation/v1"
FOREIGN_ID: Final = "branchgate/foreign-id/v1"
NAME: Final = "branchgate/name/v1"
MESSAGE: Final = "branchgate/message/v1"
ARTIFACT: Final = "branchgate/artifact/v1"
OUTCOME: Final = "branchgate/outcome/v1"
NOTICE: Final = "branchgate/notice/v1"
SHOWN: Final = "branchgate/shown/v1"
HYPOTHESIS: Final = "branchgate/hypothesis/v1"
PERMIT: Final = "branchgate/permit/v1"
GOVERNANCE: Final = "branchgate/governance/v1"
TOOL_REGISTRY: Final = "branchgate/tool-registry/v1"

_KEY = re.compile(KEY_PATTERN)
_OUR_KEY = re.compile("[a-z_][a-z0-9_]{0,39}")
_SEEN_LIMIT: Final = 4096
_seen_keys: set[str] = set()


class ProfileError(ValueError):
    """A value outside the profile: says where and which rule, never what was there.

    ``field`` is a dotted path ("" for the whole) in which a key that is no snake_case word shows as ``*``.
    """

    def __init__(self, field: str, rule: str) -> None:
        super().__init__(f"{field or '(whole)'}: {rule}")
        self.field = field
        self.rule = rule


def canonical_bytes(value: object) -> bytes:
    """The RFC 8785 form of a value of our profile. Raises ProfileError."""
    if not _is_within(value):
        _check(value, "", 1)
    return write_bytes(value)


def write_bytes(value: object) -> bytes:
    """The same bytes for a value already known to be within the profile; anything else is undefined."""
    try:
        return _write(value)
    except (TypeError, ValueError, RecursionError):
        raise ProfileError("", "profile") from None


def is_canonical(value: object, raw: bytes) -> bool:
    """Whether raw is the canonical form of the value that was parsed from it."""
    try:
        return canonical_bytes(value) == raw
    except ProfileError:
        return False


def _write_with_json(value: object) -> bytes:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8")


def _write_with_orjson(value: object) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER)


_write: Callable[[object], bytes] = _write_with_json if orjson is None else _write_with_orjson


def _is_within(value: object) -> bool:
    """The quick look: level by level, without a path; false sends the value to the slow one."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for node in level:
            if type(node) is list:
                members: Iterable[object] = node
            elif type(node) is dict and (node.keys() <= _seen_keys or _are_keys(node)):
                members = node.values()
            else:
                return False
            if not _are_within(members, below):
                return False
        if not below:
            return True
        level = below
    return False


def _are_within(members: Iterable[object], below: list[Any]) -> bool:
    """Whether these leaves are of the profile; objects and lists are put below for the next level."""
    for member in members:
        kind = type(member)
        if kind is str:
            if not member.isascii():  # type: ignore[attr-defined]
                return False
        elif kind is int:
            if not -MAX_INTEGER <= member <= MAX_INTEGER:  # type: ignore[operator]
                return False
        elif kind is dict or kind is list:
            below.append(member)
        elif member is not None and kind is not bool:
            return False
    return True


def _are_keys(node: dict[object, object]) -> bool:
    """Whether all keys are of the profile; those that are will not be looked at again."""
    for key in node:
        if type(key) is not str or _KEY.fullmatch(key) is None:
            return False
    if len(_seen_keys) < _SEEN_LIMIT:
        _seen_keys.update(node)  # type: ignore[arg-type]
    return True


def _check(value: object, path: str, depth: int) -> None:
    """The slow look, which finds the field; what it lets through is within the profile."""
    if isinstance(value, dict):
        _check_object(value, path, depth)
    elif isinstance(value, (list, tuple)):
        _check_list(value, path, depth)
    elif isinstance(value, str):
        _check_text(str.__str__(value), path)
    elif isinstance(value, int):
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise ProfileError(path, "integer_range")
    elif value is not None:
        raise ProfileError(path, "float" if isinstance(value, float) else "type")


def _check_object(value: dict[object, object], path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ProfileError(_shorten(path), "depth")
    for key, member in value.items():
        if type(key) is not str or _KEY.fullmatch(key) is None:
            raise ProfileError(path, "key")
        # A key of a map may be anybody's word, and an error shows only ours.
        shown = key if _OUR_KEY.fullmatch(key) else "*"
        _check(member, f"{path}.{shown}" if path else shown, depth + 1)


def _check_list(value: list[object] | tuple[object, ...], path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ProfileError(_shorten(path), "depth")
    for index, member in enumerate(value):
        _check(member, f"{path}.{index}" if path else str(index), depth + 1)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ProfileError(path, "surrogate") from None


def _shorten(path: str) -> str:
    return ".".join(path.split(".")[:MAX_DEPTH])


def parse_strict(raw: bytes | str, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """The JSON value of raw. Raises ProfileError.

    Refused: more than max_bytes, text that is not UTF-8, a key twice, floats, NaN and Infinity,
    integers of 2^53 or more, more levels than max_depth, lone surrogates. The field is "" where the
    parser cannot say where it is.
    """
    if len(raw) > max_bytes:
        raise ProfileError("", "max_bytes")
    text = _decode(raw, max_bytes)
    try:
        value = _DECODER.decode(text)
    except ProfileError:
        raise
    except RecursionError:
        raise ProfileError("", "depth") from None
    except ValueError:
        raise ProfileError("", "json") from None
    _check_parsed(value, text, max_depth)
    return value  # type: ignore[no-any-return]


def _decode(raw: bytes | str, max_bytes: int) -> str:
    try:
        if isinstance(raw, bytes):
            return raw.decode("utf-8")
        if not raw.isascii() and len(raw.encode("utf-8")) > max_bytes:
            raise ProfileError("", "max_bytes")
    except UnicodeError:
        raise ProfileError("", "utf8") from None
    return raw


def _check_parsed(value: object, text: str, max_depth: int) -> None:
    """Walk only where the text could hold what the parser lets through: escapes, or many brackets."""
    if "\\u" in text:
        _check_surrogates(value)
    if text.count("{") + text.count("[") > max_depth and _depth(value, max_depth) > max_depth:
        raise ProfileError("", "depth")


def _check_surrogates(value: object) -> None:
    if isinstance(value, str):
        _check_text(value, "")
    elif isinstance(value, dict):
        for key, member in value.items():
            _check_text(key, "")
            _check_surrogates(member)
    elif isinstance(value, list):
        for member in value:
            _check_surrogates(member)


def _depth(value: object, limit: int) -> int:
    """How many levels of objects and lists; stops counting one past the limit."""
    if limit < 0 or not isinstance(value, (dict, list)):
        return 0
    members = value.values() if isinstance(value, dict) else value
    return 1 + max((_depth(member, limit - 1) for member in members), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ProfileError("", "duplicate_key")
    return members


def _integer(digits: str) -> int:
    # Seventeen characters hold every integer of the profile and its sign; int() of more is costly.
    if len(digits) > 17 or not -MAX_INTEGER <= (value := int(digits)) <= MAX_INTEGER:
        raise ProfileError("", "integer_range")
    return value


def _refuse_float(_digits: str) -> NoReturn:
    raise ProfileError("", "float")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_refuse_float, parse_constant=_refuse_float
)


def digest(domain: str, value: object) -> str:
    """``sha256:`` + the SHA-256 of the domain, a NUL and the canonical bytes. Raises ProfileError.

    Bytes are taken as they are; only for values that nobody can guess (else use keys.HmacKey).
    """
    content = value if isinstance(value, bytes) else canonical_bytes(value)
    return "sha256:" + hashlib.sha256(domain.encode("ascii") + b"\0" + content).hexdigest()
