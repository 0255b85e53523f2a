"""One plain GET of which more is looked at than a page: its headers, and a body too large to be read."""

import hashlib
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address

from debugger.adapters.addresses import Allowed
from debugger.adapters.outbound import (
    MOST_BYTES,
    READ_S,
    Unreachable,
    checked_address,
    connect,
    place_of,
    plain_headers,
)
from debugger.adapters.servers import ends_after


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the body's digest, or None where it is larger than is read."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    digest: bytes | None = field(repr=False)

    def header(self, name: str) -> str | None:
        """Return a header's value, those of one name joined, None where it is not there."""
        return self.headers.get(name)


def fetch(url: str, allowed: Allowed, secret: str | None) -> Answer:
    """Ask once, following nothing, with a bearer token if there is one. Raises Unreachable."""
    place = place_of(url)
    address = checked_address(place, allowed)
    if secret is not None and place.scheme != "https" and ip_address(address[0]).is_global:
        raise Unreachable("secret_in_clear")
    own = {"Accept": "*/*", **({} if secret is None else {"Authorization": f"Bearer {secret}"})}
    try:
        connected = connect(place, address)
    except (OSError, ValueError):
        raise Unreachable("no_connection") from None
    with closing(connected) as connection, ends_after(connection.sock.fileno(), READ_S) as is_cut:
        try:
            connection.request("GET", place.path, headers={**plain_headers(place), **own})
            answer = _answer(connection)
        except TimeoutError:
            raise Unreachable("timeout") from None
        except (OSError, HTTPException, ValueError):
            raise Unreachable("timeout" if is_cut.is_set() else "no_answer") from None
        except Unreachable as error:
            raise Unreachable("timeout" if is_cut.is_set() else error.problem) from None
    if is_cut.is_set():  # what was cut can look whole
        raise Unreachable("timeout")
    return answer


def _answer(connection: HTTPConnection) -> Answer:
    with closing(connection.getresponse()) as response:
        headers = _headers(response)
        if response.length is not None and response.length > MOST_BYTES:
            return Answer(response.status, headers, None)
        if response.length is None and not response.chunked:  # its end looks like the end of the server
            raise Unreachable("length_missing")
        body = response.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            return Answer(response.status, headers, None)
        if response.length:  # what is still to come
            raise Unreachable("cut_short")
    return Answer(response.status, headers, hashlib.sha256(body).digest())


def _headers(response: HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        low = name.lower()
        found[low] = f"{found[low]}, {value}" if low in found else value
    return found
