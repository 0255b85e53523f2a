"""OTLP/HTTP as the protocol has it: a stock exporter sends traces here with a token, and needs no more."""

import logging
from functools import partial
from typing import Final

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from branches.commands.import_live import import_live
from branches.commands.refusal import Refused
from branches.ports import LiveImporter, SourceFile, SourceRefusal, SourceUnreadable
from branches.queries.newest_workflow import is_published
from branches.registry import PluginMissing, find
from debugger.api.bodies import read_at_most
from debugger.api.errors import Problem, sort_and_places
from debugger.api.otlp_status import failure
from debugger.api.tokens import TokenAuth
from debugger.intake import beside

MOST_BYTES: Final = 16 * 1024 * 1024
_LABEL: Final = "request"
_TOO_MUCH: Final = frozenset({"max_bytes", "max_items"})
_HEADERS: Final = frozenset({"content-type", "content-encoding"})
_logger = logging.getLogger(__name__)


@csrf_exempt
def traces(request: HttpRequest) -> HttpResponse:
    """Take one export request: a full or partial success, else a Status that names field and rule."""
    try:
        return _taken(request)
    except Problem as problem:
        return failure(request, problem.status, problem.rule, problem.field)
    except Refused as refused:
        return failure(request, 409, refused.rule, refused.field)
    except (OperationalError, InterfaceError) as error:
        # The database is away or busy, and nothing is wrong with the request: what is sent again is known.
        _logger.error("failed with %s", sort_and_places(error))
        return failure(request, 503, "unavailable")
    except Exception as error:  # noqa: BLE001 - the page that Django would answer is no Status
        _logger.error("failed with %s", sort_and_places(error))
        return failure(request, 500, "internal")


def _taken(request: HttpRequest) -> HttpResponse:
    """Take what can be taken. Raises Problem for the request as a whole."""
    if request.method != "POST":
        raise Problem(405, "method")
    machine = TokenAuth("ingest")(request)
    if not machine:
        raise Problem(401, "token")
    file = _file(request)
    try:
        found = find("importers", "otlp")
        assert isinstance(found, LiveImporter)  # noqa: S101 - ours is one
        importer = found.knowing(partial(is_published, machine.workspace))
        pieces = importer.pieces_of(file)
    except PluginMissing:
        raise Problem(501, "plugin_missing:importers") from None
    except SourceUnreadable as error:
        raise Problem(_status_of(error), error.rule, error.field) from None
    earlier = beside(machine.workspace, pieces)
    done = import_live(
        workspace=machine.workspace, importer=importer, file=file, threads=pieces, earlier=earlier
    )
    refused = [each for result in done for each in result.refused if _is_of_this(each)]
    media, body = importer.answer(file, refused)
    return HttpResponse(body, content_type=media)


def _file(request: HttpRequest) -> SourceFile:
    try:
        raw = read_at_most(request, MOST_BYTES)
    except OSError:
        raise Problem(400, "truncated", "body") from None  # its sender went away, or sent broken chunks
    if len(raw) > MOST_BYTES:
        raise Problem(413, "max_bytes", "body")
    headers = {name.lower(): value for name, value in request.headers.items()}
    return SourceFile(_LABEL, raw, {name: value for name, value in headers.items() if name in _HEADERS})


def _status_of(error: SourceUnreadable) -> int:
    if error.rule in _TOO_MUCH:
        return 413
    return 415 if error.field in _HEADERS and error.rule in {"enum", "charset"} else 400


def _is_of_this(refused: SourceRefusal) -> bool:
    return refused.where == _LABEL or refused.where.startswith(f"{_LABEL}:")
