"""What arrived at a destination that lists it in JSON, page by page; an incomplete list says nothing.

The option `list` is an object: `url` (with `{page}`, counted from 1 until one is empty, or `{cursor}`, and
`{since}` where the place can leave older things out); `next` (selector of the next cursor); `whole` (true
where one answer holds everything); `items` (selector of the list, the whole answer unless given);
`operation_key` (selector of the key, or of a text that carries it), `at` (selector of a time: RFC 3339, or
whole seconds), `ref` (selector of the place's own id); `found`, `absent`, `auth_env`, `allow` as around it.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from branches.ports import Arrival, JsonValue, Target
from debugger.adapters.destinations.json_answer import WHOLE, ask, select
from debugger.adapters.destinations.keys_in_names import key_of
from debugger.adapters.destinations.rebuilt import content_of, ref_at
from debugger.adapters.options import TargetUnfit, table, text, text_or
from debugger.adapters.outbound import Unreachable

MOST_PAGES: Final = 100
MOST_SECONDS: Final = 30.0
_PAGE: Final = "{page}"
_CURSOR: Final = "{cursor}"
_SHARED: Final = ("auth_env", "allow")


def arrivals(target: Target, since: datetime) -> list[Arrival] | None:
    """Return all that the list shows since a moment, or None where it cannot be read to its end."""
    try:
        listed = _list_of(target)
        shown = [_arrival(listed, item) for page in _pages(listed, since) for item in page]
    except (Unreachable, TargetUnfit):
        return None
    return [each for each in shown if each.at is None or each.at >= since]


def moment_of(value: Any) -> datetime | None:
    """Return a time as a place writes it (RFC 3339, or whole seconds since 1970), or None."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return found if found.tzinfo is not None else None


def _list_of(target: Target) -> Target:
    declared = table(target, "list")
    if not declared:
        raise TargetUnfit("list", "declared")
    shared: dict[str, JsonValue] = {name: target.options[name] for name in _SHARED if name in target.options}
    return Target(target.name, {**shared, **declared}, target.key)


def _pages(listed: Target, since: datetime) -> Iterator[list[Any]]:
    """Yield the pages to the last. Raises Unreachable where there is no end to them."""
    template = text(listed, "url").replace("{since}", quote(since.isoformat(), safe=""))
    until = time.monotonic() + MOST_SECONDS
    cursor = ""
    for number in range(1, MOST_PAGES + 1):
        if time.monotonic() > until:
            raise Unreachable("timeout")
        url = template.replace(_PAGE, str(number)).replace(_CURSOR, quote(cursor, safe=""))
        answer = ask(listed, url)
        page = [] if answer is None else select(answer.value, text_or(listed, "items", WHOLE))
        if not isinstance(page, list):
            raise Unreachable("items_missing")
        yield page
        if _PAGE in template:
            is_last = not page
        elif "next" in listed.options:
            following = None if answer is None else select(answer.value, text(listed, "next"))
            cursor = _cursor(following)
            is_last = not cursor
        elif listed.options.get("whole") is True:
            is_last = True
        else:
            raise TargetUnfit("list", "whole")
        if is_last:
            return
    raise Unreachable("too_many")


def _cursor(following: Any) -> str:
    """Return the next cursor, empty at the end; one that is not shown at all is no end."""
    if following is None or following == "":
        return ""
    if isinstance(following, bool) or not isinstance(following, (str, int)):
        raise Unreachable("cursor_missing")
    return str(following)


def _arrival(listed: Target, item: Any) -> Arrival:
    shown = select(item, text(listed, "operation_key")) if "operation_key" in listed.options else None
    at = moment_of(select(item, text(listed, "at"))) if "at" in listed.options else None
    return Arrival(ref_at(listed, item) or content_of(listed, item), key_of(shown), at)
