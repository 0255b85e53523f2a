"""A browser's session at a site: origin, page and whether the site still takes the cookie as signed in."""

from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final

from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import PART, STATE
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text
from debugger.adapters.outbound import Page, Unreachable, get, place_of
from debugger.adapters.plain_files import read_plain
from debugger.adapters.probes.no_journal import NoJournal

_MOST_COOKIE: Final = 8 * 1024


class HttpSessionProbe(NoJournal):
    """Options: `base_url`, `path`, `cookie_file` (a Cookie header's value, or absent), `allow`."""

    part_names = ("origin", "path", "session")
    limits = (
        "Whether the site takes the session as signed in is compared, by its status and its cookies; the"
        " page's content, the account and what was typed but not sent are not."
    )
    remedy = "Sign in again in that browser and probe again, or acknowledge that the session changed."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Ask for the page once with the session's cookie, following nothing."""
        del moment
        try:
            allowed = Allowed.of(target.options.get("allow"))
            path = text(target, "path")
            if not path.startswith("/"):  # else it would be the end of the host's name
                raise TargetUnfit("path", "path")
            url = text(target, "base_url").rstrip("/") + path
            cookie = _cookie(local_path(target, "cookie_file"))
            origin = place_of(url).origin
            page = get(url, allowed=allowed, headers={"Cookie": cookie} if cookie else {})
            session = _session_of(page, cookie)
        except ValueError as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        seen = {"origin": origin, "path": target.key.digest(STATE, path), "session": session}
        return StateMeasurement(
            target.key.digest(STATE, b"session\0" + canonical_bytes(seen)),
            {"session": session},
            parts={
                target.key.digest(PART, name): target.key.digest(STATE, f"session\0{name}\0{value}")
                for name, value in seen.items()
            },
        )


def _cookie(path: Path) -> str:
    """Return the Cookie header's value, empty where there is no session. Raises TargetUnfit."""
    try:
        cookie = read_plain(path, _MOST_COOKIE).decode("ascii").strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        raise TargetUnfit("cookie_file", "readable") from None
    if len(cookie) > _MOST_COOKIE or not cookie.isprintable():
        raise TargetUnfit("cookie_file", "header")
    return cookie


def _session_of(page: Page, cookie: str) -> str:
    """Return the session's class. Raises Unreachable where the answer says nothing of it."""
    if page.status in {401, 403, 419, 440} or 300 <= page.status < 400:
        return "expired" if cookie else "anonymous"
    if not 200 <= page.status < 300:
        raise Unreachable("server_error" if page.status >= 500 else "status_undeclared")
    if not cookie:
        return "anonymous"
    return "expired" if _is_taken_away(page, cookie) else "signed_in"


def _is_taken_away(page: Page, cookie: str) -> bool:
    """Whether the site told the browser to forget one of the session's cookies."""
    own = {pair.partition("=")[0].strip() for pair in cookie.split(";")}
    for line in page.cookies:
        try:
            said = SimpleCookie(line)
        except CookieError:
            continue
        if any(name in own and (not each.value or each["max-age"] == "0") for name, each in said.items()):
            return True
    return False
