"""A refusal is an exception like any other, and never shows a value."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from branches.commands.refusal import Refused


@contextmanager
def passing_on() -> Iterator[None]:
    yield


def test_it_passes_through_whatever_passes_exceptions_on() -> None:
    with pytest.raises(Refused) as refused, passing_on():
        raise Refused(rule="enum", field="reason")
    assert str(refused.value) == "reason: enum"
    assert str(Refused(rule="sealed")) == "sealed"
