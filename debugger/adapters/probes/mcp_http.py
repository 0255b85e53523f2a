"""MCP over streamable HTTP to one checked address: no redirect, no proxy, no listening, bounded answers."""

import ssl
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any, Final

import httpcore2
import httpx2

from debugger.adapters.outbound import CONNECT_S, READ_S, Place

_ELSEWHERE: Final = "elsewhere"


class PinnedTransport(httpx2.AsyncBaseTransport):
    """Carries requests to one place and no other; `problem` says in a word what it refused to carry."""

    def __init__(self, place: Place, address: tuple[str, int], most_bytes: int) -> None:
        self.problem: str | None = None
        self._most_bytes = most_bytes
        self._origin = httpx2.URL(place.origin)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=4,
            network_backend=_PinnedBackend(*address),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Carry one request. Raises TransportError for whatever is refused."""
        own, asked = self._origin, request.url
        if (asked.scheme, asked.host, asked.port) != (own.scheme, own.host, own.port):
            raise self.refused(_ELSEWHERE)
        if request.method == "GET":  # a stream to listen on, which nobody needs who asks one question
            return httpx2.Response(405)
        request.headers["Accept-Encoding"] = "identity"
        assert isinstance(request.stream, httpx2.AsyncByteStream)  # noqa: S101 - an async client's request
        carried = httpcore2.Request(
            method=request.method,
            url=httpcore2.URL(
                scheme=asked.raw_scheme, host=asked.raw_host, port=asked.port, target=asked.raw_path
            ),
            headers=request.headers.raw,
            content=request.stream,
            extensions=request.extensions,
        )
        return await self._answer(carried)

    async def _answer(self, request: httpcore2.Request) -> httpx2.Response:
        try:
            answer = await self._pool.handle_async_request(request)
        except (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException) as error:
            is_late = isinstance(error, httpcore2.TimeoutException)
            raise self.refused("timeout" if is_late else "no_connection") from None
        headers = httpx2.Headers(answer.headers)
        problem = None
        if 300 <= answer.status < 400:
            problem = "redirected"
        elif headers.get("Content-Encoding", "identity").lower() != "identity":
            problem = "encoded"
        elif answer.status in {401, 403}:
            problem = "access_refused"
        if problem is not None:
            await answer.aclose()
            raise self.refused(problem)
        assert isinstance(answer.stream, AsyncIterable)  # noqa: S101 - an async pool's answer
        return httpx2.Response(answer.status, headers=headers, stream=_Bounded(self, answer.stream))

    def refused(self, problem: str) -> httpx2.TransportError:
        """Remember the first word of what went wrong, and return it as an error."""
        self.problem = self.problem or problem
        return httpx2.TransportError(problem)

    @property
    def most_bytes(self) -> int:
        """How long one answer may be."""
        return self._most_bytes

    async def aclose(self) -> None:
        """Close every connection."""
        await self._pool.aclose()


class _PinnedBackend(httpcore2.AnyIOBackend):
    """Connects to the address that was checked, whatever name is asked for; TLS still checks the name."""

    def __init__(self, address: str, port: int) -> None:
        self._address = address
        self._port = port

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's own signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the one address."""
        del host, port, timeout, local_address
        return await super().connect_tcp(
            self._address, self._port, timeout=CONNECT_S, socket_options=socket_options
        )


class _Bounded(httpx2.AsyncByteStream):
    """An answer's bytes, refused as a whole once they are too many."""

    def __init__(self, transport: PinnedTransport, stream: AsyncIterable[bytes]) -> None:
        self._transport = transport
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._transport.most_bytes
        try:
            async for part in self._stream:
                if (left := left - len(part)) < 0:
                    raise self._transport.refused("too_large")
                yield part
        except (httpcore2.NetworkError, httpcore2.ProtocolError):
            raise self._transport.refused("cut_short") from None
        except httpcore2.TimeoutException:
            raise self._transport.refused("timeout") from None

    async def aclose(self) -> None:
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


def client_for(transport: PinnedTransport, headers: dict[str, str]) -> httpx2.AsyncClient:
    """Return a client that knows no proxy, no `.netrc` and no other place."""
    timeout = httpx2.Timeout(READ_S, connect=CONNECT_S)
    return httpx2.AsyncClient(transport=transport, headers=headers, timeout=timeout, trust_env=False)
