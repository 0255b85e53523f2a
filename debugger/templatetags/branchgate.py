"""The few tags that pages share: icons, ages, short digests, and the badge of one track."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django import template
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from branches.queries.authority_words import KIND_WORDS
from branches.queries.words import Badge, Shape

register = template.Library()


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """Draw a state's shape; the words beside it say the same."""
    return format_html(
        '<svg class="i {}" aria-hidden="true"><use href="{}#{}"/></svg>',
        extra,
        static("icons/states.svg"),
        name,
    )


@register.simple_tag
def badge(value: Badge, size: str = "") -> SafeString:
    """Draw one slot of one track. A solid fill says that a destination proved it, so it comes only from a
    badge of that shape, and those are made from outcome receipts alone."""
    shape = {Shape.FILL: "fill", Shape.DASH: "dash", Shape.OUTLINE: ""}[value.shape]
    return format_html(
        '<span class="badge st-{} {} {}">{}{}</span>', value.hue, size, shape, icon(value.icon), value.words
    )


@register.filter
def age(moment: datetime | None) -> str:
    """Return how long ago a fact was checked, coarsely; what nobody asked says so."""
    if moment is None:
        return "not asked"
    seconds = max(0, int((timezone.now() - moment).total_seconds()))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago" if seconds > 1 else "just now"


@register.filter
def until(moment: datetime | None) -> str:
    """Return how long something still holds."""
    if moment is None:
        return "no limit"
    seconds = int((moment - timezone.now()).total_seconds())
    if seconds <= 0:
        return "expired"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"in {seconds // size} {unit}"
    return f"in {seconds} s"


@register.filter
def short(text: str | None) -> str:
    """Return a digest or id short enough to read: first four and last two characters of its random part."""
    if not text:
        return "unknown"
    tail = text.rsplit(":", 1)[-1].split("+", 1)[0].rsplit("_", 1)[-1]
    return tail if len(tail) <= 8 else f"{tail[:4]}…{tail[-2:]}"


_KEYED = re.compile(r"hmac-sha256:[0-9a-f]+:([0-9a-f]{4})[0-9a-f]+([0-9a-f]{2})")


@register.filter
def short_name(text: str) -> str:
    """Return a name as it is, and a covered one short enough to read."""
    return _KEYED.sub(r"\1…\2", text)


@register.filter
def spaced(word: object) -> str:
    """Return a code word as words."""
    return str(word).replace("_", " ")


@register.filter
def member(found: Mapping[str, object], key: str) -> object:
    """Return what a mapping holds under a key, or None."""
    return found.get(key)


@register.filter
def lasting(span: timedelta) -> str:
    """Return a span of time as a policy writes it: whole days, hours or minutes."""
    seconds = int(span.total_seconds())
    for size, one in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {one}{'' if seconds == size else 's'}"
    return f"{seconds} seconds"


@register.filter
def kind_words(kind: str) -> str:
    """Return what whoever forks may say that a change touches, as a sentence part."""
    return KIND_WORDS[kind].capitalize()


@register.filter
def initials(name: str) -> str:
    """Return two letters for a person's disc."""
    parts = [part for part in name.replace("-", " ").replace(".", " ").split() if part]
    return "".join(part[0] for part in parts[:2]).upper() or "?"


@register.filter
def short_path(path: str) -> str:
    """Return a dotted field with long digests shortened."""
    return ".".join(short(part) if len(part) > 40 else part for part in path.split("."))


_LIMIT_WORDS: Final = {"acceptance_s": "Accepted within", "progress_s": "Progress within"}


@register.filter
def limit_words(name: str) -> str:
    """Return a handoff limit in words."""
    return _LIMIT_WORDS.get(name, name.replace("_", " "))
