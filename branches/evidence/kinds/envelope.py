"""The envelope round every kind's body, and the whole schema of each kind.

An actor is one of: ``{"type": "agent", "name"}`` and ``{"type": "destination", "name"}`` with a declared
name or its keyed digest; ``{"type": "person" | "machine" | "recorder", "id"}`` with an id of ours.
"""

from typing import Final

from branches.evidence.kinds import BODIES, OUTSIDE_KINDS, WORKSPACE_KINDS
from branches.evidence.kinds.forms import (
    EVENT,
    RUN,
    TIMESTAMP,
    Declared,
    Schema,
    an_id,
    enum,
    integer,
    name,
    nullable,
    one_of,
    record,
)

ACTOR: Final = one_of(
    record({"type": enum("agent"), "name": name(Declared.AGENT)}),
    record({"type": enum("destination"), "name": name(Declared.DESTINATION)}),
    record({"type": enum("person"), "id": an_id("per")}),
    record({"type": enum("machine"), "id": an_id("tok", "wrt", "job", "rec", "ws")}),
    record({"type": enum("recorder"), "id": an_id("rec", "wrt", "tok")}),
)

_WORKSPACE: Final = an_id("ws")
_RUN_OR_WORKSPACE: Final = an_id("run", "br", "ws")
_ON_EITHER_CHAIN: Final = frozenset({"conflict", "refused"})


def _run(kind: str) -> Schema:
    if kind in WORKSPACE_KINDS:
        return _WORKSPACE
    return _RUN_OR_WORKSPACE if kind in _ON_EITHER_CHAIN else RUN


def _schema(kind: str) -> Schema:
    counted = integer(1)
    members = {
        "v": {"type": "integer", "const": 1},
        "event_id": EVENT,
        "run": _run(kind),
        "kind": {"type": "string", "const": kind},
        "at": TIMESTAMP,
        "actor": ACTOR,
        # The product's own commands need no count: they write in the transaction that they report.
        "writer_seq": counted if kind in OUTSIDE_KINDS else nullable(counted),
        "body": BODIES[kind],
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": kind,
        **record(members),
    }


SCHEMAS: Final[dict[str, Schema]] = {kind: _schema(kind) for kind in BODIES}
