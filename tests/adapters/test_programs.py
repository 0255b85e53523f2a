"""Programs that are run and ended, whatever they do."""

import sys
import time

import pytest

from debugger.adapters.outbound import Unreachable
from debugger.adapters.programs import MOST_SAID, Ran, run
from tests.adapters.places import MARKER
from tests.adapters.wire import leaves_nothing_open
from tests.patience import PATIENCE_S, ends


def ran(code: str, *, seconds: float = PATIENCE_S, most: int = 1000, said: bytes = b"") -> Ran:
    command = [sys.executable, "-c", code]
    return run(command, env={}, deadline=time.monotonic() + seconds, most_bytes=most, said=said)


def problem(code: str, **options: float) -> str:
    with pytest.raises(Unreachable) as refused:
        ran(code, **options)  # type: ignore[arg-type]
    return refused.value.problem


def test_it_says_what_a_program_said_and_how_it_ended() -> None:
    code = "import os, sys; print(sys.stdin.read() + str(sorted(os.environ))); sys.exit(3)"
    found = ran(code, said=b"told ")
    assert (found.code, found.out.startswith(b"told [")) == (3, True)
    assert b"HOME" not in found.out
    assert MARKER not in repr(ran(f"print('{MARKER}')"))


def test_it_ends_a_program_that_says_too_much_or_nothing_for_too_long() -> None:
    assert problem("while True: print('x' * 100)") == "too_large"
    for code in ("import time; time.sleep(120)", "import os, time; os.close(1); time.sleep(120)"):
        with ends():
            assert problem(code, seconds=0.5) == "timeout"


def test_it_tells_a_program_that_does_not_listen_no_more_than_it_may() -> None:
    assert ran("pass", said=b"x" * MOST_SAID).code == 0
    with pytest.raises(Unreachable) as refused:
        ran("pass", said=b"x" * (MOST_SAID + 1))
    assert refused.value.problem == "too_large"


@pytest.mark.parametrize("name", ["/no/such/program", "/", "with\0nul"])
def test_it_says_where_there_is_no_program(name: str) -> None:
    with pytest.raises(Unreachable) as refused:
        run([name], env={}, deadline=time.monotonic() + PATIENCE_S, most_bytes=10)
    assert refused.value.problem == "program_missing"


def test_it_leaves_nothing_open() -> None:
    with leaves_nothing_open():
        for _ in range(5):
            ran("print(1)")
            problem("print('x' * 100)", most=10)
