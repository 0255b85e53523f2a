"""Connections for more than one plain GET, under the same rules: checked address, bounded, no redirect."""

import http.client
import socket
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Literal

from debugger.adapters.addresses import Allowed
from debugger.adapters.http_head import WholeHead
from debugger.adapters.outbound import (
    CONNECT_S,
    MOST_BYTES,
    READ_S,
    Place,
    Unreachable,
    checked_address,
    place_of,
    plain_headers,
)
from debugger.adapters.servers import ends_after

MOST_LIST_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back from a store: status, the headers by their names in small letters, and the body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def connect(host: str, port: int, allowed: Allowed, tls: ssl.SSLContext | None = None) -> socket.socket:
    """Connect to the address that was checked; the certificate is that of the name. Raises Unreachable."""
    address, _ = checked_address(Place("", host, port, ""), allowed)
    try:
        raw = socket.create_connection((address, port), timeout=CONNECT_S)
    except (OSError, ValueError):
        raise Unreachable("no_connection") from None
    try:
        if tls is not None:
            raw = tls.wrap_socket(raw, server_hostname=host.strip("[]"))
        raw.settimeout(READ_S)
    except (OSError, ValueError):
        raw.close()
        raise Unreachable("no_connection") from None
    return raw


def exchange(
    method: Literal["GET", "HEAD"], url: str, *, allowed: Allowed, headers: Mapping[str, str]
) -> Reply:
    """Ask once and return what came back, with its headers. Raises Unreachable."""
    place = place_of(url)
    tls = ssl.create_default_context() if place.scheme == "https" else None
    raw = connect(place.host, place.port, allowed, tls)
    connection = http.client.HTTPConnection(place.host.strip("[]"), place.port)
    connection.sock = raw
    connection.auto_open = 0  # what was checked is what is used
    connection.response_class = WholeHead
    own = {**plain_headers(place), "Accept": "*/*", **headers}
    with closing(connection), ends_after(raw.fileno(), READ_S) as is_cut:
        try:
            connection.request(method, place.path, headers=own)
            answer = connection.getresponse()
            with closing(answer):
                body = answer.read(MOST_BYTES + 1)
                reply = Reply(answer.status, {n.lower(): v for n, v in answer.headers.items()}, body)
                is_whole = not answer.length
                is_plain = answer.headers.get("Content-Encoding", "identity").lower() == "identity"
        except TimeoutError:
            raise Unreachable("timeout") from None
        except (OSError, http.client.HTTPException, ValueError):
            raise Unreachable("timeout" if is_cut.is_set() else "no_answer") from None
        if is_cut.is_set():
            raise Unreachable("timeout")
    if len(reply.body) > MOST_BYTES:
        raise Unreachable("too_large")
    if not is_whole:
        raise Unreachable("cut_short")
    if not is_plain:  # nothing else was asked for, and what it holds could be of any size
        raise Unreachable("encoded")
    return reply
