"""What table cells need: one value of a row, and a configuration part as it may be shown."""

from collections.abc import Sequence

from django import template

from branches.queries.configuration_page import is_digest
from debugger.templatetags.branchgate import short

register = template.Library()


@register.filter
def at(values: Sequence[object], index: int) -> object:
    """Return one value of a sequence by its place."""
    return values[index]


@register.filter
def part(value: str | None) -> str:
    """Return a declared name as it is, a digest shortened, and nothing as “none”."""
    if value is None:
        return "none"
    return short(value) if is_digest(value) else value
