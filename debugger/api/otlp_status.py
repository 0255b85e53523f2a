"""How OTLP/HTTP says no: a google.rpc.Status in the encoding of the request, with the rule in its message."""

import json
from collections.abc import Mapping
from typing import Final

from django.http import HttpRequest, HttpResponse

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
RETRY_AFTER_S: Final = 5
"""An exporter keeps what it could not send, and asks again after so many seconds."""

_INVALID_ARGUMENT: Final = 3
_INTERNAL: Final = 13
# The words of google.rpc.Code by our own status; any other 4xx is about the request itself.
_CODES: Final[Mapping[int, int]] = {
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    405: 12,  # UNIMPLEMENTED
    409: 9,  # FAILED_PRECONDITION
    429: 8,  # RESOURCE_EXHAUSTED
    500: _INTERNAL,
    501: 12,
    503: 14,  # UNAVAILABLE
}
_MORE: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "Bearer"},
    405: {"Allow": "POST"},
    429: {"Retry-After": f"{RETRY_AFTER_S}"},
    503: {"Retry-After": f"{RETRY_AFTER_S}"},
}


def failure(request: HttpRequest, status: int, rule: str, field: str = "") -> HttpResponse:
    """Return the refusal of a request: its code, and the field and rule, never a value.

    A request of neither encoding is answered in JSON.
    """
    code = _CODES.get(status, _INVALID_ARGUMENT if status < 500 else _INTERNAL)
    message = f"{field}: {rule}" if field else rule
    if request.content_type == PROTOBUF:
        media, body = PROTOBUF, as_protobuf(code, message)
    else:
        media, body = JSON, json.dumps({"code": code, "message": message}).encode()
    return HttpResponse(body, status=status, content_type=media, headers=dict(_MORE.get(status, {})))


def as_protobuf(code: int, message: str) -> bytes:
    """Return the Status message: field 1 the code as a varint, field 2 the message as bytes."""
    text = message.encode()
    return b"\x08" + _varint(code) + b"\x12" + _varint(len(text)) + text


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
