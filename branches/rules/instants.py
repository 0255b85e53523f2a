"""Points in time as exact values: RFC 3339 in, compared without rounding, and no clock."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Self

DAY_S = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_DAYS_IN_400_YEARS = 146_097
_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


@dataclass(frozen=True, slots=True, order=True)
class Instant:
    """One point in time: `second` is whole seconds since 1970-01-01T00:00:00Z, rounded down.

    `fraction` is the decimal digits after the point without trailing zeros, of any length: digit strings of
    that form compare as the fractions do, so instants are ordered exactly and never overflow.
    """

    second: int
    fraction: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an RFC 3339 timestamp with offset; ValueError for anything else.

        `T` and `Z` may be lower case, `-00:00` is an offset. A leap second (23:59:60 UTC on the last day of
        June or December) is read as the second after it, as POSIX does; any other `:60` is refused.
        """
        match = _RFC_3339.fullmatch(text)
        if match is None:
            raise ValueError("not an RFC 3339 timestamp with offset")
        year, month, day, hour, minute, second = (int(part) for part in match.group(1, 2, 3, 4, 5, 6))
        if hour > 23 or minute > 59 or second > 60:
            raise ValueError("no such time of day")
        offset_s = _offset_s(*match.group(8, 9, 10))
        total = _day(year, month, day) * DAY_S + hour * 3600 + minute * 60 + second - offset_s
        if second == 60 and not _follows_a_leap_second(total):
            raise ValueError("no leap second there")
        return cls(total, (match[7] or "").rstrip("0"))

    @classmethod
    def of(cls, moment: datetime) -> Self:
        """The instant of an aware datetime; ValueError for a naive one."""
        if moment.utcoffset() is None:
            raise ValueError("a datetime without offset is no instant")
        micros = (moment - datetime.fromtimestamp(0, UTC)) // timedelta(microseconds=1)
        second, rest = divmod(micros, 1_000_000)
        return cls(second, f"{rest:06d}".rstrip("0"))

    def is_older_than(self, seconds: int, now: "Instant") -> bool:
        """Strictly more than `seconds` before `now`."""
        return Instant(self.second + seconds, self.fraction) < now


def _day(year: int, month: int, day: int) -> int:
    """Days since the epoch. RFC 3339 has a year 0 and `date` has none; the calendar repeats in 400 years."""
    if year == 0:
        return date(400, month, day).toordinal() - _DAYS_IN_400_YEARS - _EPOCH_DAY
    return date(year, month, day).toordinal() - _EPOCH_DAY


def _offset_s(sign: str | None, hours: str | None, minutes: str | None) -> int:
    if sign is None or hours is None or minutes is None:
        return 0
    if int(hours) > 23 or int(minutes) > 59:
        raise ValueError("no such offset")
    size = int(hours) * 3600 + int(minutes) * 60
    return -size if sign == "-" else size


def _follows_a_leap_second(second: int) -> bool:
    day, rest = divmod(second, DAY_S)
    after = date.fromordinal(day + _EPOCH_DAY)
    return rest == 0 and after.day == 1 and after.month in (1, 7)
