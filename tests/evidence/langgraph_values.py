"""Values as a LangGraph run has them, written by its real serializer; run alone it prints them in hex."""

import dataclasses
import datetime
import decimal
import enum
import pathlib
import sys
import uuid
from collections import deque, namedtuple

from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.types import Send
from pydantic import BaseModel

Pair = namedtuple("Pair", "left right")


class Colour(enum.Enum):
    RED = "red"


class Ticket(BaseModel):
    title: str
    labels: set[str] = set()
    by_name: dict[str, int] = {}


@dataclasses.dataclass
class Note:
    text: str
    tags: frozenset[str] = frozenset()


WORDS = [f"word-{number}" for number in range(40)]


def messages(run: str, at: str):
    return [
        HumanMessage("book a room", id=str(uuid.uuid5(uuid.NAMESPACE_DNS, run + "1"))),
        AIMessage(
            "",
            id=f"run--{uuid.uuid5(uuid.NAMESPACE_DNS, run + '2')}",
            tool_calls=[
                {"name": "book", "args": {"room": 7, "at": at}, "id": f"call_{run}", "type": "tool_call"}
            ],
        ),
        ToolMessage("booked", tool_call_id=f"call_{run}", id=str(uuid.uuid5(uuid.NAMESPACE_DNS, run + "3"))),
    ]


def values() -> dict[str, object]:
    """Each name has the same value in every process, put together in an order that hashing decides."""
    ordered = list(dict.fromkeys(set(WORDS)))
    return {
        "set": set(ordered),
        "frozenset": frozenset(ordered),
        "nested": {"sets": [set(ordered), {frozenset(ordered), frozenset(ordered[:0])}]},
        "keys": {word: len(word) for word in ordered},
        "pydantic": Ticket(title="x", labels=set(ordered), by_name=dict.fromkeys(ordered, 1)),
        "dataclass": Note("x", frozenset(ordered)),
        "messages": messages("a", "2026-11-30T09:00:00+00:00"),
        "scalars": [
            None,
            True,
            False,
            0,
            -1,
            127,
            128,
            -33,
            2**40,
            -(2**40),
            2**63,
            1.5,
            "é",
            b"\x00",
            "x" * 300,
        ],
        "foreign": [
            uuid.UUID(int=7),
            decimal.Decimal("1.10"),
            datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC),
            datetime.date(2026, 11, 30),
            datetime.timedelta(seconds=3),
            pathlib.Path("a/b"),
            Colour.RED,
            Pair(1, 2),
            deque([1, 2]),
            Send("node", {"a": 1}),
        ],
        "int_keys": {number: str(number) for number in range(20)},
        "long": list(range(70000)),
    }


def serialised(value: object) -> bytes:
    kind, raw = JsonPlusSerializer().dumps_typed(value)
    assert kind == "msgpack"
    return raw


if __name__ == "__main__":
    for name, value in values().items():
        sys.stdout.write(f"{name} {serialised(value).hex()}\n")
