"""Memory of agents of the OpenAI SDK at a checkpoint: the state that our recorder saved, hashed again now."""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from branches.evidence.run_states import StateMalformed, TooMany, Wanted, files_of, parse
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.plain_files import read_plain

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 64 * 1024 * 1024
MOST_NAMES: Final = 200_000
MOST_COPIES: Final = 64


class _Changed(Exception):
    """A file lies where the state should, and is none; the message is a closed word."""


class RunStateMemoryProbe:
    """Options: `store`, the folder `states` in a recorder's home.

    Besides: `thread_id` and `checkpoint_id`, the names of a folder in it and of a file there, for asking
    without a moment; without the second the newest state.
    """

    shows_content = True
    """A recorder can show what this probe measures."""
    limits = (
        "Everything that the saved state holds at this checkpoint is compared; what an agent holds outside it"
        " (sessions, conversations at the provider, a context object that was left out) is not."
    )
    remedy = "Fork from a checkpoint whose file is still unchanged, or put that file back."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Hash the saved state as it lies in the folder now, whichever run's folder it is found in."""
        try:
            folder = local_path(target, "store")
            wanted = _wanted(target, moment)
            if wanted is None:
                return StateMeasurement(None, problem="no_checkpoint")
            return _one_of(set(_prints(folder, target, wanted)))
        except TargetUnfit as error:
            return unfit_measurement(error)
        except _Changed as error:
            return StateMeasurement(None, problem=str(error))
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return the same: a checkpoint is the past, kept."""
        return self.measure(target, moment)


def _wanted(target: Target, moment: Moment) -> Wanted | None:
    """Return which state is meant, or None where nothing says so. Raises TargetUnfit."""
    thread = text(target, "thread_id") if "thread_id" in target.options else None
    own = text(target, "checkpoint_id") if "checkpoint_id" in target.options else None
    if thread is None and own is None and moment.checkpoint is None:
        return None
    # A thread in clear without a checkpoint is asked about as it stands, whatever the moment is.
    ref = moment.checkpoint if thread is None else None
    return Wanted(thread, own, moment.external_ref, ref)


def _one_of(found: set[str]) -> StateMeasurement:
    if not found:
        return StateMeasurement(None, problem="checkpoint_absent")
    if len(found) > 1:  # copies that no longer agree prove nothing
        return StateMeasurement(None, problem="checkpoint_ambiguous")
    return StateMeasurement(found.pop())


def _prints(folder: Path, target: Target, wanted: Wanted) -> Iterator[str]:
    """Yield the fingerprint of every copy, read one after the other. Raises Unreachable and _Changed."""
    deadline = time.monotonic() + TIMEOUT_S
    for file in _files(folder, target, wanted):
        if time.monotonic() > deadline:
            raise Unreachable("timeout")
        try:
            raw = read_plain(file, MOST_BYTES)
        except OSError:
            raise Unreachable("state_unreadable") from None
        if len(raw) > MOST_BYTES:
            raise Unreachable("too_large")
        try:
            yield parse(raw).fingerprint(target.key)
        except (StateMalformed, RecursionError):
            raise _Changed("state_malformed") from None


def _files(folder: Path, target: Target, wanted: Wanted) -> list[Path]:
    try:
        found = list(islice(files_of(folder, target.key, wanted, MOST_NAMES), MOST_COPIES + 1))
    except OSError:
        raise Unreachable("store_unreadable") from None
    except TooMany:
        raise Unreachable("too_many_checkpoints") from None
    if len(found) > MOST_COPIES:
        raise Unreachable("too_many_checkpoints")
    return found
