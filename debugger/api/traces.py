"""OTLP/HTTP as the protocol has it: a stock exporter sends traces here with a token, and needs no more."""

from typing import Final

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from branches.commands.import_live import import_live
from branches.ports import LiveImporter, SourceFile, SourceRefusal, SourceUnreadable
from branches.registry import PluginMissing, find
from debugger.api.bodies import read_at_most
from debugger.api.errors import problem_response
from debugger.api.tokens import TokenAuth
from debugger.intake import beside

MOST_BYTES: Final = 16 * 1024 * 1024
_LABEL: Final = "request"
_TOO_MUCH: Final = frozenset({"max_bytes", "max_items"})
_HEADERS: Final = frozenset({"content-type", "content-encoding"})


@csrf_exempt
def traces(request: HttpRequest) -> HttpResponse:
    """Take one export request: a full or partial success, else an error that names field and rule."""
    if request.method != "POST":
        return problem_response(405, "method")
    machine = TokenAuth("ingest")(request)
    if not machine:
        return problem_response(401, "token")
    raw = read_at_most(request, MOST_BYTES)
    if len(raw) > MOST_BYTES:
        return problem_response(413, "max_bytes")
    headers = {name.lower(): value for name, value in request.headers.items()}
    named = {name: value for name, value in headers.items() if name in _HEADERS}
    file = SourceFile(_LABEL, raw, named)
    try:
        importer = find("importers", "otlp")
        assert isinstance(importer, LiveImporter)  # noqa: S101 - ours is one
        pieces = importer.pieces_of(file)
    except PluginMissing:
        return problem_response(501, "plugin_missing:importers")
    except SourceUnreadable as error:
        return problem_response(_status_of(error), error.rule, error.field)
    earlier = beside(machine.workspace, pieces)
    done = import_live(
        workspace=machine.workspace, importer=importer, file=file, threads=pieces, earlier=earlier
    )
    refused = [each for result in done for each in result.refused if _is_of_this(each)]
    media, body = importer.answer(file, refused)
    return HttpResponse(body, content_type=media)


def _status_of(error: SourceUnreadable) -> int:
    if error.rule in _TOO_MUCH:
        return 413
    return 415 if error.field in _HEADERS and error.rule in {"enum", "charset"} else 400


def _is_of_this(refused: SourceRefusal) -> bool:
    return refused.where == _LABEL or refused.where.startswith(f"{_LABEL}:")
