"""What a recorder posts when a loop has ended: the same evidence that its importer reads from files."""

from typing import Any, Final

from django.http import HttpRequest
from ninja import Router, Status

from branches.commands.import_source import Imported, import_source, run_of
from branches.ports import SourceFile
from branches.queries.audits import audits_json, audits_now, counts_json
from branches.queries.clock import now
from branches.queries.handoff_audits import MOST_SHOWN
from debugger.api import forms
from debugger.api.bodies import read_at_most
from debugger.api.errors import Problem
from debugger.api.tokens import Machine, TokenAuth, machine_of

router = Router(tags=["sources"])
MOST_BYTES: Final = 4 * 1024 * 1024
# Those whose evidence is whole in one request; traces come in pieces, and have a route of their own.
_SOURCES: Final = frozenset({"ai_sdk"})
_LABEL: Final = "request"


@router.post(
    "/sources/{source}",
    auth=TokenAuth("ingest"),
    response={200: forms.SourceOut, 207: forms.SourceOut},
    exclude_unset=True,
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}}},
)
def post_source(request: HttpRequest, source: str) -> Status[Any]:
    """Take the evidence of one loop; the same again is the same run, and counts as duplicates."""
    if source not in _SOURCES:
        raise Problem(404, "not_found")
    machine = machine_of(request)
    file = SourceFile(_LABEL, _content(request))
    (done,) = import_source(workspace=machine.workspace, importer=source, files=[file])
    if not done.accepted and not done.duplicates:
        first = done.refused[0]
        raise Problem(413 if first.rule == "too_large" else 422, first.rule, first.field)
    return Status(207 if done.refused else 200, _said(machine, done))


def _content(request: HttpRequest) -> bytes:
    """Return the body; raises Problem 413 or 415."""
    if request.content_type != "application/json":
        raise Problem(415, "content_type", "content-type")
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise Problem(415, "content_encoding", "content-encoding")
    content = read_at_most(request, MOST_BYTES)
    if len(content) > MOST_BYTES:
        raise Problem(413, "max_bytes")
    return content


def _said(machine: Machine, done: Imported) -> dict[str, Any]:
    run = run_of(machine.workspace, done.run)
    audits = None if run is None else audits_now(run, now(), most=MOST_SHOWN)
    return {
        "run": done.run,
        "accepted": done.accepted,
        "duplicates": done.duplicates,
        "refused": [{"where": each.where, "field": each.field, "rule": each.rule} for each in done.refused],
        **audits_json(audits),
        **counts_json(audits),
    }
