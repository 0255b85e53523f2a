"""What a destination calls by itself: it pushes the outcome that it holds, signed with a shared secret."""

import os
from typing import Any, Final

from django.http import HttpRequest
from ninja import Router
from pydantic import ValidationError

from branches.commands.receive_outcome import Pushed, receive_outcome
from branches.evidence import webhooks
from branches.evidence.canonical import ProfileError, parse_strict
from branches.queries.clock import now
from branches.queries.lookups import NotHere, workspace_named
from branches.queries.targets import TargetMissing, target
from debugger.api import forms
from debugger.api.errors import Problem

router = Router(tags=["destination"])
MOST_BYTES: Final = 8 * 1024


@router.post(
    "/destinations/{workspace}/{place}/outcomes",
    auth=None,
    response=forms.PushedOut,
    openapi_extra={
        "requestBody": {"content": {"application/json": {"schema": forms.PushedIn.model_json_schema()}}}
    },
)
def push(request: HttpRequest, workspace: str, place: str) -> dict[str, str]:
    """Take an outcome that the registered destination pushes, by the Standard Webhooks convention."""
    if len(request.body) > MOST_BYTES:
        raise Problem(413, "max_bytes")
    raw = request.body
    room, secret = _registered(workspace, place)
    headers = {name.lower(): value for name, value in request.headers.items()}
    try:
        message = webhooks.verify(headers, raw, secret, now())
    except webhooks.WebhookInvalid as error:
        raise Problem(401, error.rule) from None
    word = receive_outcome(workspace=room, place=place, message=message, raw=raw, pushed=_pushed(raw))
    return {"check": word}


def _registered(workspace: str, place: str) -> tuple[Any, bytes]:
    """Return the workspace and the place's secret; whatever is missing, there is nothing here."""
    try:
        room = workspace_named(workspace)
        variable = target(room, place).options.get("webhook_secret_env")
        if not isinstance(variable, str):
            raise Problem(404, "not_found")
        return room, webhooks.secret_of(os.environ.get(variable, ""))
    except (NotHere, TargetMissing, webhooks.WebhookInvalid):
        raise Problem(404, "not_found") from None


def _pushed(raw: bytes) -> Pushed:
    try:
        body = forms.PushedIn.model_validate(parse_strict(raw))
    except ProfileError:
        raise Problem(400, "json") from None
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        where = [str(part) for part in first["loc"]]
        field = ".".join(where[:-1] if first["type"] == "extra_forbidden" else where)
        raise Problem(422, first["type"], field) from None
    return Pushed(**body.model_dump())
