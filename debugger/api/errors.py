"""One form for every error: the field, the rule, never the value."""

import logging
import traceback
from pathlib import Path
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from branches.commands.refusal import Refused
from branches.queries.lookups import NotHere
from branches.registry import PluginMissing


class Problem(Exception):
    """An answer other than success."""

    def __init__(self, status: int, rule: str, field: str = "") -> None:
        super().__init__(rule)
        self.status = status
        self.rule = rule
        self.field = field


def problem_response(status: int, rule: str, field: str = "", **more: Any) -> HttpResponse:
    """Return the error in its one form."""
    return JsonResponse({"error": {"field": field, "rule": rule, **more}}, status=status)


_logger = logging.getLogger(__name__)


def sort_and_places(error: Exception) -> str:
    """Return what a log may say of an exception: its own words may hold what was sent, and a path is one."""
    steps = traceback.extract_tb(error.__traceback__)[-4:]
    places = (f"{Path(step.filename).name}:{step.lineno}" for step in steps)
    return f"{type(error).__name__} at {' '.join(places)}"


def install_errors(api: NinjaAPI) -> None:
    """Teach an API the product's refusals."""

    @api.exception_handler(Problem)
    def _problem(_request: HttpRequest, error: Problem) -> HttpResponse:
        return problem_response(error.status, error.rule, error.field)

    @api.exception_handler(Refused)
    def _refused(_request: HttpRequest, error: Refused) -> HttpResponse:
        status = 403 if error.rule.startswith(("role:", "own_work")) else 409
        changed = [difference.field for difference in error.difference]
        return problem_response(status, error.rule, error.field, changed=changed)

    @api.exception_handler(PluginMissing)
    def _no_plugin(_request: HttpRequest, error: PluginMissing) -> HttpResponse:
        return problem_response(409, f"plugin_missing:{error.port}")

    @api.exception_handler(HttpError)
    def _unreadable(_request: HttpRequest, error: HttpError) -> HttpResponse:
        # The framework's own word for a body that it could not read.
        return problem_response(error.status_code, "json" if error.status_code == 400 else "http")

    @api.exception_handler(NotHere)
    def _not_here(_request: HttpRequest, _error: NotHere) -> HttpResponse:
        return problem_response(404, "not_found")

    @api.exception_handler(AuthenticationError)
    def _unknown(_request: HttpRequest, _error: AuthenticationError) -> HttpResponse:
        return problem_response(401, "token")

    @api.exception_handler(ValidationError)
    def _invalid(_request: HttpRequest, error: ValidationError) -> HttpResponse:
        first = error.errors[0]
        # The location of an unknown key would repeat it, so only the declared part of the path is shown.
        where = [str(part) for part in first["loc"] if str(part) not in {"body", "payload", "query"}]
        field = ".".join(where[:-1] if first["type"] == "extra_forbidden" else where)
        return problem_response(422, first["type"], field)

    @api.exception_handler(RequestDataTooBig)
    def _too_big(_request: HttpRequest, _error: RequestDataTooBig) -> HttpResponse:
        return problem_response(413, "max_bytes")

    @api.exception_handler(Exception)
    def _failed(_request: HttpRequest, error: Exception) -> HttpResponse:
        _logger.error("failed with %s", sort_and_places(error))
        return problem_response(500, "internal")
