"""The browser probe at pages that reach for other places, hang, break off, or run wild: how a visit ends."""

import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from branches.ports import StateMeasurement
from debugger.adapters.probes import browser
from tests.adapters import browsers
from tests.adapters.browsers import leftovers, running
from tests.adapters.places import KEY, MARKER, Web
from tests.adapters.places_pages import HTML, Shop
from tests.patience import PATIENCE_S, ends

pytestmark = browsers.needs_chromium
hurried = browsers.hurried
site = browsers.site
shop = browsers.shop
visits = browsers.visits


REACHING = """
<img src="{other}/image"><iframe src="{other}/frame"></iframe><script src="{other}/script"></script>
<link rel=stylesheet href="{other}/style"><link rel=prefetch href="{other}/prefetch">
<link rel=preconnect href="{other}"><link rel=dns-prefetch href="//localhost">
<iframe srcdoc="<script>{reach}</script>"></iframe>
<form action="{other}/form" method=post target=_blank></form>
<script>{reach}; try {{ document.forms[0].submit() }} catch (e) {{}}
fetch('/own', {{method: 'POST', body: 'x'}}).catch(() => 0)</script><p id=who></p><main>done</main>
"""
REACH = (
    "for (const f of ["
    "() => fetch('{other}/fetch', {{mode: 'no-cors'}}).catch(() => 0),"
    "() => navigator.sendBeacon('{other}/beacon', 'x'),"
    "() => new WebSocket('{socket}/socket'),"
    "() => new EventSource('{other}/events'),"
    "() => window.open('{other}/window'),"
    "() => new Worker(URL.createObjectURL(new Blob(['fetch(`{other}/worker`)']))),"
    "() => new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{udp}'}}]}}).createDataChannel('x'),"
    "() => {{const c = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.1:{udp}'}}]}});"
    " c.createDataChannel('x'); c.createOffer().then(o => c.setLocalDescription(o))}},"
    "]) try {{ f() }} catch (e) {{}}"
)


def test_it_asks_no_other_place_whatever_the_page_reaches_for(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # what it reaches for has all the time there is
    other = Web(lambda _: (200, [], b""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(0.1)
        names = {"other": other.url, "socket": other.url.replace("http", "ws"), "udp": udp.getsockname()[1]}
        reach = REACH.format(**names)
        page = REACHING.format(reach=reach.replace('"', "&quot;"), **names)
        shop.pages["/orders/7"] = (200, HTML, page)
        shop.pages["/image"] = (302, [("Location", f"{other.url}/redirected")], "")
        found = shop.measured()
        assert (found.problem, found.facts["session"]) == (None, "signed_in")
        assert other.paths == []
        with pytest.raises(TimeoutError):
            udp.recv(100)
    assert "/orders/7" in shop.web.paths
    assert "/own" not in shop.web.paths
    other.close()


@pytest.mark.parametrize("way", ["page", "script"])
def test_it_follows_no_redirect_to_another_place(shop: Shop, way: str) -> None:
    other = Web(lambda _: (200, [], b""))
    shop.pages["/away"] = (307, [("Location", f"{other.url}/redirected")], "")
    shop.pages["/orders/7"] = {
        "page": (302, [("Location", "/away")], ""),
        "script": (200, HTML, f"<p id=who></p><main></main><script>location = '{other.url}/x'</script>"),
    }[way]
    found = shop.measured()
    assert other.paths == []
    assert found.fingerprint is None or found.facts["session"] in {"signed_in", "expired"}
    other.close()


@pytest.mark.parametrize(
    ("url", "allow", "problem"),
    [
        ("http://127.0.0.1:9/", None, "address_refused"),
        ("http://169.254.169.254/", ["169.254.0.0/16"], "address_refused"),
        ("http://[::ffff:127.0.0.1]/", "loopback", "address_refused"),
        ("http://user:pw@127.0.0.1/", "loopback", "url_form"),
        ("file:///etc/passwd", "loopback", "url_form"),
    ],
)
def test_it_opens_no_page_that_is_not_allowed(shop: Shop, url: str, allow: Any, problem: str) -> None:
    found = shop.measured(url=url, allow=allow)
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, problem)


def test_it_ends_a_visit_that_hangs_and_leaves_nothing_behind(
    shop: Shop, visits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "TIMEOUT_S", 9.0)  # by then the browser runs, and waits for the page
    shop.pages["/orders/7"] = (200, HTML, "<script>for (;;) {}</script>")
    commands: set[bytes] = set()
    with ends(PATIENCE_S), ThreadPoolExecutor(1) as pool:
        visit = pool.submit(shop.measured)
        while not visit.done():
            commands.update(leftovers(visits)[1].values())
            time.sleep(0.05)
    found = visit.result()
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "timeout")
    assert any(b"--user-data-dir=" + bytes(visits) in command for command in commands)
    assert leftovers(visits) == ([], {})


def test_it_takes_no_half_page_for_a_page(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "TIMEOUT_S", 3.0)
    shop.pages["/orders/7"] = (200, [*HTML, ("Content-Length", "900")], "<p id=who></p><main>half")
    found = shop.measured()
    assert (found.fingerprint, found.reachable) == (None, False)
    assert found.problem in {"timeout", "page_failed"}


def test_it_ends_a_browser_that_detaches_itself_and_all_it_started(
    shop: Shop, visits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "TIMEOUT_S", 9.0)  # by then all of them run, and the driver still waits
    sign = tmp_path / "pids"
    fake = tmp_path / "fake-browser"
    fake.write_text(
        f"#!{sys.executable}\nimport os, time\n"
        f"os.setsid() if os.getpid() != os.getsid(0) else None\n"
        f"for _ in range(3):\n    if os.fork() == 0: os.setsid()\n"
        f"open({str(sign)!r}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(120)\n"
    )
    fake.chmod(0o755)
    found = shop.measured(chromium=str(fake))
    assert (found.fingerprint, found.problem) == (None, "timeout")
    pids = sign.read_text().split()
    assert len(pids) == 8
    assert [pid for pid in pids if running(pid)] == []
    assert leftovers(visits) == ([], {})


def test_it_works_in_a_thread_and_says_its_key_nowhere(shop: Shop, capfd: Any, caplog: Any) -> None:
    found: list[StateMeasurement] = []
    seen: set[str] = set()
    thread = threading.Thread(target=lambda: found.append(shop.measured()))
    thread.start()
    while thread.is_alive():
        for path in Path("/proc").glob("[0-9]*/*"):
            if path.name in {"cmdline", "environ"}:
                with suppress(OSError):
                    seen.add(path.read_bytes().decode("latin-1"))
        time.sleep(0.05)
    assert found[0].facts["session"] == "signed_in"
    assert any("browser_page" in each for each in seen)
    assert not any(KEY.secret.hex() in each or KEY.secret.decode() in each for each in seen)
    out, err = capfd.readouterr()
    assert MARKER not in out + err + caplog.text + repr(found)
