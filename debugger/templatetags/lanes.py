"""Draws who sent what to whom: one small SVG a row, with the agents of the run as lanes."""

from collections.abc import Sequence
from typing import Final

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from branches.queries.message_map import OTHER
from branches.queries.timeline import TimelineRow

register = template.Library()

LEFT: Final = 8
STEP: Final = 14
MIDDLE: Final = 15
RIGHT: Final = 124


@register.simple_tag
def lane_row(row: TimelineRow, lanes: Sequence[str]) -> SafeString:
    """Draw one receipt on the lanes; words in the other cells say the same."""
    grid = "".join(f"M{_x(index)} 0V30" for index in range(len(lanes)))
    return format_html(
        '<svg class="lanes" viewBox="0 0 126 30" aria-hidden="true"><path class="lg" d="{}"/>{}</svg>',
        grid,
        _drawing(row, lanes),
    )


@register.simple_tag
def lane_dot(name: str | None, lanes: Sequence[str]) -> SafeString:
    """Draw the small square of an agent's lane; nothing for a name that is no lane."""
    lane = _lane(name, lanes)
    if lane is None:
        return SafeString("")
    return format_html('<span class="dot l{}" aria-hidden="true"></span>', lane + 1)


def _drawing(row: TimelineRow, lanes: Sequence[str]) -> SafeString:
    if row.mark == "checkpoint":
        return format_html(
            '<path class="cpl" d="M0 {y}H126"/><path class="cpd" d="M63 {top}l7 7-7 7-7-7z"/>',
            y=MIDDLE,
            top=MIDDLE - 7,
        )
    lane = _lane(row.sender, lanes)
    if lane is None:
        return SafeString("")
    if row.mark == "effect":
        return _effect(lane)
    square = format_html(
        '<rect class="f{}" x="{}" y="11" width="8" height="8" rx="2"/>', lane + 1, _x(lane) - 4
    )
    to = _lane(row.recipient, lanes) if row.recipient in lanes else None
    if to is None or to == lane:
        return square
    return format_html("{}{}", _arrow(lane, _x(to) - 3 if to > lane else _x(to) + 3), square)


def _effect(lane: int) -> SafeString:
    """Draw an effect as a triangle whose arrow leaves the team."""
    x = _x(lane)
    return format_html('{}<path class="fxo" d="M{} 9l5.500 11h-11z"/>', _arrow(lane, RIGHT), x)


def _arrow(lane: int, end: int) -> SafeString:
    start = _x(lane)
    back = -3 if end > start else 3
    return format_html(
        '<path class="la s{}" d="M{} {y}H{}M{} {up}l{} 3l{} 3"/>',
        lane + 1,
        start,
        end,
        end + back,
        -back,
        back,
        y=MIDDLE,
        up=MIDDLE - 3,
    )


def _lane(name: str | None, lanes: Sequence[str]) -> int | None:
    if name is None:
        return None
    if name in lanes:
        return lanes.index(name)
    return len(lanes) - 1 if lanes and lanes[-1] == OTHER else None


def _x(lane: int) -> int:
    return LEFT + STEP * lane
