"""Files and folders: names, kinds, contents, links and who may execute, in no order and opening no pipe."""

import time
from pathlib import Path
from typing import Final

from branches.evidence.domains import PART, STATE
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.file_tree import Budget, Changed, Entry, Tree, digest_of, walk
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.servers import whole

TIMEOUT_S: Final = 10.0
MOST_FILES: Final = 1_000_000
DEFAULT_FILES: Final = 100_000
MOST_BYTES: Final = 64 * 1024**3
DEFAULT_BYTES: Final = 1024**3
MOST_PARTS: Final = 24
_TRIES: Final = 3
# A file changed again within one tick of the clock keeps its times: what was that young is looked at later.
_TICK_S: Final = 0.05


class FilesProbe(NoJournal):
    """Options: `path`, if need be below the folder `root`; `most_files` (100 000), `most_bytes` (1 GB)."""

    limits = (
        "Names, contents, link targets and the executable bit are compared; owners, times, other permissions,"
        " what links point to and what programs have not written yet are not."
    )
    remedy = "Put the files back from where they are kept, then probe again."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Read everything below the path; what changed meanwhile is read again."""
        del moment
        try:
            path = _path_of(target)
            most = whole(target, "most_files", DEFAULT_FILES, MOST_FILES)
            size = whole(target, "most_bytes", DEFAULT_BYTES, MOST_BYTES)
            budget = Budget(most, most, size, time.monotonic() + TIMEOUT_S)
            return _measurement(target, _still(path, budget))
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)


def _path_of(target: Target) -> Path:
    """Return the path with every link in it followed. Raises TargetUnfit, Unreachable."""
    path = local_path(target, "path")
    root = local_path(target, "root") if "root" in target.options else None
    if ".." in path.parts:
        raise TargetUnfit("path", "plain")
    try:
        if root is None:
            return path.resolve()
        found, inside = (root / path).resolve(), root.resolve(strict=True)
    except (OSError, RuntimeError):
        raise Unreachable("path_unreadable") from None
    if not found.is_relative_to(inside):
        raise Unreachable("path_outside")
    return found


def _still(path: Path, budget: Budget) -> Tree:
    """Return the tree as it was at one moment. Raises Unreachable."""
    for _ in range(_TRIES):
        began = time.time_ns()
        try:
            tree = walk(path, budget)
        except Changed:
            continue
        if not tree.is_young(_TICK_S, began):
            return tree
        time.sleep(_TICK_S)
    raise Unreachable("changing")


def _measurement(target: Target, tree: Tree) -> StateMeasurement:
    key = target.key
    return StateMeasurement(
        key.digest(STATE, b"files\0" + digest_of(tree.entries)),
        {"kind": tree.kind, "files": tree.files, "bytes": tree.bytes},
        parts={
            key.digest(PART, name): key.digest(STATE, b"files\0" + digest_of(entries))
            for name, entries in _by_name(tree).items()
        },
    )


def _by_name(tree: Tree) -> dict[bytes, list[Entry]]:
    """Return the entries below each name at the top; none where they are too many to be told apart."""
    found: dict[bytes, list[Entry]] = {}
    for entry in tree.entries:
        if entry.name:
            found.setdefault(entry.name.split(b"/", 1)[0], []).append(entry)
    return found if len(found) <= MOST_PARTS else {}
