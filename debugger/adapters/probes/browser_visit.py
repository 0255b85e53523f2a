"""One visit of one page in Chromium: no other place is asked, and nothing is sent but reading requests."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

from playwright.sync_api import BrowserContext, Error, Page, Request, Response, Route, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from branches.evidence.domains import STATE
from branches.evidence.keys import HmacKey
from debugger.adapters.probes.browser_storage import Storage, StorageUnreadable, read_storage, written

_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-proxy-server",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
# The one thing in a page that speaks to addresses without asking for a name or passing a route.
_NO_CALLS: Final = (
    "for (const name of ['RTCPeerConnection', 'webkitRTCPeerConnection', 'WebTransport', 'WebSocketStream'])"
    " delete globalThis[name];"
)
# What a record shows: its text, and what stands in its fields, secrets and tokens aside.
_RECORD: Final = """all => all.map(each => [each.innerText].concat(
    [each, ...each.querySelectorAll('input, textarea, select')]
        .filter(field => 'value' in field && !['hidden', 'password'].includes(field.type))
        .map(field => ['checkbox', 'radio'].includes(field.type) ? String(field.checked) : field.value)))"""
_WHOLE: Final = frozenset({"document", "script", "xhr", "fetch"})
_REFUSED: Final = frozenset({401, 403, 419, 440})
_LOAD_MS: Final = 10_000
_READS: Final = 8
_MOST_TEXT: Final = 2 * 1024 * 1024


class _Unseen(Exception):
    """The page could not be seen as a whole; the message is a closed word."""


@dataclass(slots=True)
class _Seen:
    """What the page turned out to be; names and texts, which never leave this process."""

    origin: str
    path: str
    is_reached: bool
    is_signed_in: bool = False
    record: bytes | None = None


@dataclass  # the library hangs its own things on whoever listens
class _Watch:
    """Lets only requests to the one place pass, and remembers where the page was sent and what failed."""

    origin: tuple[str, str, int]
    page: Page | None = None
    status: int | None = None
    sent_to: str | None = None
    failed: bool = False
    stopped: set[str] = field(default_factory=set)

    def is_own(self, url: str) -> bool:
        """Whether this is the one place, or no place at all."""
        return url.startswith(("data:", "blob:", "about:")) or _origin_of(url) == self.origin

    def on_route(self, route: Route, request: Request) -> None:
        """Let a request pass, or stop it: reading is all a visit may do."""
        if self.is_own(request.url) and request.method in {"GET", "HEAD"}:
            route.continue_()
        else:
            self.stopped.add(request.url)
            route.abort("blockedbyclient")

    def on_response(self, response: Response) -> None:
        """Remember what the page itself answered, and an error of something it is made of."""
        request = response.request
        if request.is_navigation_request() and self._is_main(request):
            self.status = response.status
            if 300 <= response.status < 400:
                self.sent_to = urljoin(response.url, response.headers.get("location", ""))
        if response.status >= 500 and request.resource_type in _WHOLE - {"document"}:
            self.failed = True

    def on_failed(self, request: Request) -> None:
        """Remember that something the page is made of did not come."""
        gave_up = request.failure == "net::ERR_ABORTED"  # the page's own doing
        if request.resource_type in _WHOLE and request.url not in self.stopped and not gave_up:
            self.failed = self.failed or self.is_own(request.url)

    def _is_main(self, request: Request) -> bool:
        try:
            return self.page is not None and request.frame == self.page.main_frame
        except Error:  # a window that is only just being opened has no frame yet
            return False


def visit(order: Mapping[str, Any]) -> dict[str, Any]:
    """Visit as told; return `{"parts", "facts"}`, or `{"problem"}`."""
    key = HmacKey(order["key_id"], bytes.fromhex(order["key"]))
    try:
        storage = read_storage(order["storage_state"])
        seen = _visited(order, storage)
    except (_Unseen, StorageUnreadable) as error:
        return {"problem": str(error)}
    except PlaywrightTimeout:
        return {"problem": "timeout"}
    except Error as error:
        return {"problem": _problem_of(error)}
    return _told(key, order, storage, seen)


def _told(key: HmacKey, order: Mapping[str, Any], storage: Storage, seen: _Seen) -> dict[str, Any]:
    session = "signed_in" if seen.is_signed_in else "expired" if storage.is_used else "anonymous"
    contents = {
        "origin": seen.origin.encode(),
        "path": seen.path.encode(),
        "session": session.encode(),
        "viewport": order["viewport_class"].encode(),
        "storage": storage.content,
        "record": b"none" if seen.record is None else b"record\0" + seen.record,
    }
    parts = {
        name: key.digest(STATE, f"browser\0{name}\0".encode() + content) for name, content in contents.items()
    }
    facts = {"session": session, "viewport": order["viewport_class"], "path_reached": seen.is_reached}
    return {"parts": parts, "facts": facts}


def _visited(order: Mapping[str, Any], storage: Storage) -> _Seen:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=order["chromium"],
            args=[*_ARGUMENTS, f"--host-resolver-rules={order['rules']}"],
            timeout=_LOAD_MS,
        )
        context = browser.new_context(
            storage_state=storage.state,
            viewport=order["viewport"],
            accept_downloads=False,
            service_workers="block",
            locale="en-US",
            timezone_id="UTC",
            reduced_motion="reduce",
        )
        scheme, host, port = order["origin"]
        watch = _Watch((scheme, host, port))
        context.add_init_script(_NO_CALLS)
        context.route("**/*", watch.on_route)
        context.route_web_socket("**/*", lambda socket: socket.close())
        context.on("response", watch.on_response)
        context.on("requestfailed", watch.on_failed)
        try:
            return _seen(context, order, watch, storage)
        finally:
            browser.close()


def _seen(context: BrowserContext, order: Mapping[str, Any], watch: _Watch, storage: Storage) -> _Seen:
    page = watch.page = context.new_page()
    page.set_default_timeout(order["wait_ms"])
    status = _opened(page, order["url"], watch)
    if status is None:
        return _turned_away(watch.sent_to or "")
    if status in _REFUSED:
        return _turned_away(page.url if watch.is_own(page.url) else order["url"])
    if not 200 <= status < 300:
        raise _Unseen("server_error" if status >= 500 else "status_undeclared")
    _settle(page, order)
    if not watch.is_own(page.url):
        raise _Unseen("page_failed")
    is_reached = _path_of(page.url, with_query="?" in order["expected"]) == order["expected"]
    if not is_reached:
        return _turned_away(page.url)
    seen = _Seen(_written_origin(page.url), _path_of(page.url, with_query=True), is_reached=True)
    seen.is_signed_in = _is_signed_in(context, page, order, storage)
    seen.record = _record(page, order["record"], order["pause_ms"])
    if watch.failed:
        raise _Unseen("page_incomplete")
    return seen


def _opened(page: Page, url: str, watch: _Watch) -> int | None:
    """Open the page and return its status; None where it sent its visitor to another place. Raises Error."""
    try:
        response = page.goto(url, wait_until="load", timeout=_LOAD_MS)
    except PlaywrightTimeout:
        raise
    except Error:
        if watch.status is not None and watch.status >= 400:  # without a page of its own
            return watch.status
        if watch.sent_to is not None and not watch.is_own(watch.sent_to):
            return None
        raise
    if response is None:
        raise _Unseen("page_failed")
    return response.status


def _settle(page: Page, order: Mapping[str, Any]) -> None:
    """Give a page that builds itself a moment: until it asks for nothing, and what is looked for is there."""
    mark = order["signed_in"]
    limit = order["wait_ms"]
    waits = [order["record"], *([mark] if mark and not mark.startswith("cookie:") else [])]
    try:
        page.wait_for_load_state("networkidle", timeout=limit)
        for selector in waits:
            page.wait_for_selector(selector, state="attached", timeout=limit)
    except PlaywrightTimeout:
        return


def _is_signed_in(context: BrowserContext, page: Page, order: Mapping[str, Any], storage: Storage) -> bool:
    mark: str | None = order["signed_in"]
    if mark is None:
        return storage.is_used
    if mark.startswith("cookie:"):
        name = mark.removeprefix("cookie:")
        return any(each.get("name") == name and each.get("value") for each in context.cookies(page.url))
    return page.locator(mark).count() > 0


def _record(page: Page, selector: str, pause_ms: int) -> bytes | None:
    """Return what the record shows once it has stopped changing; None where it is not on the page."""
    before = None
    for _ in range(_READS):
        found = page.locator(selector).evaluate_all(_RECORD)
        shown = written([[" ".join(str(text).split()) for text in each] for each in found])
        if len(shown) > _MOST_TEXT:
            raise _Unseen("too_large")
        if shown == before:
            return shown if found else None
        before = shown
        page.wait_for_timeout(pause_ms)
    raise _Unseen("page_unsettled")


def _turned_away(url: str) -> _Seen:
    """A page that lets its visitor not in, or sends him elsewhere; another place is not followed."""
    return _Seen(_written_origin(url), _path_of(url, with_query=False), is_reached=False)


def _problem_of(error: Error) -> str:
    said = error.message
    if "ERR_CERT_" in said or "ERR_SSL_" in said:
        return "certificate_refused"
    is_absent = any(word in said for word in ("ERR_CONNECTION_", "ERR_ADDRESS_", "ERR_EMPTY_RESPONSE"))
    return "no_connection" if is_absent else "page_failed"


def _origin_of(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, (parts.hostname or "").lower(), port


def _written_origin(url: str) -> str:
    return "\0".join(map(str, _origin_of(url)))


def _path_of(url: str, *, with_query: bool) -> str:
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if with_query and parts.query else "")
