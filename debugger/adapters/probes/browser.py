"""A page as a browser with a given session sees it: where it leads, whether signed in, what it shows."""

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import PART, STATE
from branches.evidence.keys import HmacKey, is_hmac
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text, text_or
from debugger.adapters.outbound import Place, Unreachable, checked_address, place_of
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.programs import run

TIMEOUT_S: Final = 20.0
WAIT_MS: Final = 2_000
"""How long a page may take to ask for nothing more, and to show what is looked for."""
PAUSE_MS: Final = 250
"""How long the record must stay as it is."""
_GRACE_S: Final = 6.0
_MOST_ANSWER: Final = 64 * 1024
_SIZES: Final = {"phone": (390, 844), "tablet": (820, 1180), "desktop": (1440, 900)}
_WORDS: Final = {"session": frozenset({"anonymous", "signed_in", "expired"}), "viewport": frozenset(_SIZES)}
_PROBLEM: Final = re.compile("[a-z_]{3,40}")


class BrowserProbe(NoJournal):
    """Options: `url` and `allow`; the others need not be given.

    `storage_state` is the path of a saved one (absent: nobody is signed in); `expected_path` the path that
    must be reached (`url`'s own unless given); `signed_in` a selector, or `cookie:NAME`, that is there only
    for who is signed in; `record` a selector of what the page is about (`body`); `viewport` phone, tablet,
    desktop, or `{"width", "height"}`; `chromium` a program.
    """

    part_names = ("origin", "path", "session", "viewport", "storage", "record")
    limits = (
        "Where the page leads, the session, the stored cookies and the record's text are compared; pictures,"
        " other tabs, and what was typed but not sent are not."
    )
    remedy = "Sign in again in that browser and open the page, or acknowledge that the record changed."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Open the page once in a browser of its own that asks no other place, and close it."""
        del moment
        try:
            order = _order(target)
            seen = _visited(target.key, order)
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        parts: dict[str, str] = seen["parts"]
        return StateMeasurement(
            target.key.digest(STATE, b"browser\0" + canonical_bytes(parts)),
            seen["facts"],
            parts={target.key.digest(PART, name): content for name, content in parts.items()},
        )


def viewport_class(width: int) -> str:
    """Return what a width (in CSS pixels) is called."""
    return "phone" if width < 600 else "tablet" if width < 1024 else "desktop"


def _order(target: Target) -> dict[str, Any]:
    """Return what the visitor is told, the key aside. Raises TargetUnfit, Unreachable."""
    url = text(target, "url")
    place = place_of(url)
    expected = text_or(target, "expected_path", place.path.partition("?")[0])
    if not expected.startswith("/"):
        raise TargetUnfit("expected_path", "path")
    width, height = _size(target)
    order = {
        "url": url,
        "origin": [place.scheme, place.host.strip("[]").lower(), place.port],
        "expected": expected,
        "storage_state": _path(target, "storage_state"),
        "signed_in": text_or(target, "signed_in", "") or None,
        "record": text_or(target, "record", "body"),
        "viewport": {"width": width, "height": height},
        "viewport_class": viewport_class(width),
        "seconds": TIMEOUT_S,
        "wait_ms": WAIT_MS,
        "pause_ms": PAUSE_MS,
    }
    order["rules"] = _rules(place, _address(target, place))
    order["chromium"] = _chromium(target)
    return order


def _path(target: Target, option: str) -> str | None:
    return str(local_path(target, option)) if option in target.options else None


def _size(target: Target) -> tuple[int, int]:
    value = target.options.get("viewport", "desktop")
    if isinstance(value, str) and value in _SIZES:
        return _SIZES[value]
    if isinstance(value, dict) and value.keys() == {"width", "height"}:
        width, height = value["width"], value["height"]
        if (
            type(width) is int
            and type(height) is int
            and all(200 <= side <= 4000 for side in (width, height))
        ):
            return width, height
    raise TargetUnfit("viewport", "phone,tablet,desktop,size")


def _address(target: Target, place: Place) -> str:
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "networks") from None
    return checked_address(place, allowed)[0]


def _rules(place: Place, address: str) -> str:
    """Return the browser's rules for names: the one place is where it was checked, every other nowhere."""
    there = f"[{address}]" if ":" in address else address
    return f"MAP {place.host.lower()}:{place.port} {there}:{place.port}, MAP * ~NOTFOUND"


def _chromium(target: Target) -> str:
    path = _path(target, "chromium") or shutil.which("chromium")
    if path is None or not os.access(path, os.X_OK) or find_spec("playwright") is None:
        raise Unreachable("browser_missing")
    return path


def _visited(key: HmacKey, order: Mapping[str, Any]) -> dict[str, Any]:
    """Have the page visited by a program of its own, told the key through a pipe. Raises Unreachable."""
    said = json.dumps({**order, "key_id": key.key_id, "key": key.secret.hex()}).encode()
    with TemporaryDirectory(prefix="branchgate-visit-", ignore_cleanup_errors=True) as home:
        done = run(
            [sys.executable, "-P", "-m", "debugger.adapters.probes.browser_page"],
            env=_environment(home),
            deadline=time.monotonic() + TIMEOUT_S + _GRACE_S,
            most_bytes=_MOST_ANSWER,
            said=said,
        )
    try:
        return _answer(json.loads(done.out))
    except (ValueError, RecursionError):
        raise Unreachable("browser_failed") from None


def _environment(home: str) -> dict[str, str]:
    """Return an environment without proxies, secrets or a profile; everything written lands in one folder."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        **dict.fromkeys(("HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), home),
    }


def _answer(said: Any) -> dict[str, Any]:
    """Return an answer that is of the agreed form. Raises ValueError, Unreachable."""
    if not isinstance(said, dict):
        raise ValueError("form")
    if isinstance(problem := said.get("problem"), str) and _PROBLEM.fullmatch(problem):
        raise Unreachable(problem)
    parts, facts = said.get("parts"), said.get("facts")
    if not isinstance(parts, dict) or parts.keys() != set(BrowserProbe.part_names):
        raise ValueError("parts")
    if not all(isinstance(content, str) and is_hmac(content) for content in parts.values()):
        raise ValueError("parts")
    if not isinstance(facts, dict) or not isinstance(facts.get("path_reached"), bool):
        raise ValueError("facts")
    kept: dict[str, Fact] = {"path_reached": facts["path_reached"]}
    for name, words in _WORDS.items():
        if facts.get(name) not in words:
            raise ValueError("facts")
        kept[name] = facts[name]
    return {"parts": {name: parts[name] for name in BrowserProbe.part_names}, "facts": kept}
