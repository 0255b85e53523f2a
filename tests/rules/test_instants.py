"""Timestamps are RFC 3339 with offset, compared exactly and at any precision."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branches.rules import Instant


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-30T09:00:00+00:00",
        "2026-11-30t09:00:00z",
        "2026-11-30T09:00:00.000000000000000000000Z",
        "2026-11-30T09:00:00-00:00",
        "2026-11-30T10:30:00+01:30",
        "2026-11-29T15:00:00-18:00",
        "2026-12-01T08:59:00+23:59",
    ],
)
def test_it_reads_every_spelling_of_one_instant(text):
    assert Instant.parse(text) == Instant.of(datetime(2026, 11, 30, 9, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        *("", "2026-11-30", "2026-11-30T09:00:00", "2026-11-30T09:00Z", "2026-11-30 09:00:00Z"),
        *("2026-11-30T09:00:00+0000", "2026-11-30T09:00:00+00", "2026-11-30T09:00:00+24:00"),
        *("2026-11-30T09:00:00+00:60", "2026-11-30T24:00:00Z", "2026-11-30T09:60:00Z"),
        *("2026-11-30T09:00:61Z", "2026-11-31T09:00:00Z", "2026-02-29T09:00:00Z", "2026-13-01T09:00:00Z"),
        *("2026-00-01T09:00:00Z", "2026-11-30T09:00:00.Z", "2026-11-30T09:00:00,5Z", "20261130T090000Z"),
        *("2026-11-30T09:00:00Z\n", " 2026-11-30T09:00:00Z", "2026-W49-1T09:00:00Z", "٢٠٢٦-11-30T09:00:00Z"),
        *("02026-11-30T09:00:00Z", "-2026-11-30T09:00:00Z", "2026-11-30T09:00:00 Z", "2026-11-30T9:00:00Z"),
    ],
)
def test_it_refuses_everything_else(text):
    with pytest.raises(ValueError):
        Instant.parse(text)


def test_it_reads_a_leap_second_as_the_second_after_it():
    assert Instant.parse("2016-12-31T23:59:60Z") == Instant.parse("2017-01-01T00:00:00Z")
    assert Instant.parse("2015-07-01T01:59:60+02:00") == Instant.parse("2015-07-01T00:00:00Z")


@pytest.mark.parametrize(
    "text",
    ["2026-11-30T09:00:60Z", "2026-11-30T23:59:60Z", "2016-12-31T23:59:60+01:00", "9999-12-31T23:59:60Z"],
)
def test_it_refuses_a_leap_second_where_there_is_none(text):
    with pytest.raises(ValueError):
        Instant.parse(text)


def test_it_orders_fractions_exactly():
    texts = ("09:00:00Z", "09:00:00.0000000001Z", "09:00:00.09Z", "09:00:00.1Z", "09:00:00.11Z", "09:00:01Z")
    instants = [Instant.parse(f"2026-11-30T{text}") for text in texts]
    assert instants == sorted(instants)
    assert len(set(instants)) == len(instants)
    assert Instant.parse("2026-11-30T09:00:00.10Z") == instants[3]


def test_it_spans_every_year_that_rfc_3339_can_write():
    assert Instant.parse("0000-02-29T00:00:00Z") < Instant.parse("0001-01-01T00:00:00+23:59")
    assert Instant.parse("0000-12-31T23:59:59.9Z") < Instant.parse("0001-01-01T00:00:00Z")
    assert (
        Instant.parse("0000-12-31T00:00:00Z").second + 86_400 == Instant.parse("0001-01-01T00:00:00Z").second
    )
    assert Instant.parse("9999-12-31T23:59:59-23:59") > Instant.parse("9999-12-31T23:59:59Z")


def test_it_calls_older_only_what_is_strictly_older():
    now = Instant.parse("2026-11-30T09:10:00Z")
    then = Instant.parse("2026-11-30T09:00:00Z")
    assert then.is_older_than(599, now)
    assert not then.is_older_than(600, now)
    assert Instant.parse("2026-11-30T08:59:59.999999999999Z").is_older_than(600, now)
    assert not Instant.parse("2026-11-30T09:00:00.000000000001Z").is_older_than(600, now)
    assert not then.is_older_than(10**4000, now)


moments = st.datetimes(
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
)


@given(moments, moments)
def test_it_agrees_with_aware_datetimes(one, other):
    assert Instant.parse(one.isoformat()) == Instant.of(one)
    assert (Instant.of(one) < Instant.of(other)) == (one < other)
    assert (Instant.of(one) == Instant.of(other)) == (one == other)


def test_it_refuses_a_datetime_without_offset():
    with pytest.raises(ValueError):
        Instant.of(datetime(2026, 11, 30))  # noqa: DTZ001
