"""Time as the record writes it: RFC 3339 in UTC with microseconds."""

from datetime import UTC, datetime

from django.utils import timezone


def now() -> datetime:
    """Return the present, in UTC."""
    return timezone.now()


def stamp(moment: datetime) -> str:
    """Return a moment as the record writes it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse(text: str) -> datetime:
    """Return the moment that a stamp names."""
    return datetime.fromisoformat(text)
