"""Request bodies within their limits, also those that come in chunks; NDJSON may come in gzip."""

import zlib
from typing import Final, cast

from django.conf import settings
from django.http import HttpRequest
from ninja.parser import Parser
from ninja.types import DictStrAny

from branches.evidence.canonical import parse_strict
from debugger.api.errors import Problem

_MOST_JSON: Final = 4 * 1024 * 1024
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS


def ndjson_lines(request: HttpRequest) -> list[bytes]:
    """Return the lines of a batch; raises Problem 413 or 415 or 400."""
    if request.content_type not in {"application/x-ndjson", "application/jsonl", "application/json"}:
        raise Problem(415, "content_type", "content-type")
    limit = settings.BRANCHGATE_MAX_BATCH_BYTES
    raw = _read(request, limit)
    encoding = request.headers.get("Content-Encoding", "").lower()
    if encoding == "gzip":
        raw = _unzip(raw, limit)
    elif encoding not in {"", "identity"}:
        raise Problem(415, "content_encoding", "content-encoding")
    if len(raw) > limit:
        raise Problem(413, "max_bytes")
    lines = raw.split(b"\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > settings.BRANCHGATE_MAX_BATCH_LINES:
        raise Problem(413, "max_lines")
    return lines


def read_at_most(request: HttpRequest, limit: int) -> bytes:
    """Return up to `limit` + 1 bytes of a body; whoever gets more than `limit` refuses it.

    A body in chunks declares no length, and Django reads none of it. The web server in front knows its end.
    """
    environ = getattr(request, "environ", {})
    if environ.get("wsgi.input_terminated") and not environ.get("CONTENT_LENGTH"):
        return cast("bytes", environ["wsgi.input"].read(limit + 1))
    return request.read(limit + 1)


def _read(request: HttpRequest, limit: int) -> bytes:
    declared = request.headers.get("Content-Length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise Problem(413, "max_bytes")
    return read_at_most(request, limit)


def _unzip(raw: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        unpacked = unpacker.decompress(raw, limit + 1)
    except zlib.error:
        raise Problem(400, "gzip", "content-encoding") from None
    if len(unpacked) > limit or unpacker.unconsumed_tail:
        raise Problem(413, "max_bytes")
    if not unpacker.eof or unpacker.unused_data:
        # What follows the first member would be dropped without a word.
        raise Problem(400, "gzip", "content-encoding")
    return unpacked


class StrictParser(Parser):
    """Reads a JSON body as receipts are read: no key twice, no NaN, no lone surrogates, bounded depth."""

    def parse_body(self, request: HttpRequest) -> DictStrAny:
        """Return the body; the framework answers 400 for whatever is raised."""
        return cast("DictStrAny", parse_strict(request.body, max_bytes=_MOST_JSON))
