"""A verifier's own program: it looks whether the promised thing is there, and says so under its own token."""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from branches.evidence.ids import is_id
from debugger.recorder.delegated import Delegated
from debugger.recorder.gates import OwnGate
from debugger.recorder.handoff_memory import OUTCOMES, Kept
from debugger.recorder.handoffs import Artifact, artifact_digest, operation_digest
from debugger.recorder.record import RunRecord
from debugger.recorder.recorder import VERIFIER, Recorder

_DIGEST: Final = "hmac-sha256:"


class NothingDelegated(LookupError):
    """Nobody was given an operation of this name in this run: there is nothing to judge."""


class Verifier:
    """Says of operations by name whether their outcome is there; use `open`.

    Its home and its token are its own, never those of a recorder: a loop does not confirm itself. The token
    needs the scopes `ingest`, `redeem` (to pair) and `read`.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._delegated = Delegated(recorder.client)

    @classmethod
    def open(
        cls, home: Path, *, server: str, token: str, workflow: str, version: str, name: str = "verifier"
    ) -> "Verifier":
        """Open a home folder, and pair on first use; see `Recorder.open`."""
        return cls(
            Recorder.open(
                home,
                server=server,
                token=token,
                workflow=workflow,
                version=version,
                name=name,
                runtime={"name": VERIFIER, "version": _own_version()},
            )
        )

    def outcome_verified(
        self, run: str, operation: str, *, root: str | None = None, artifact: Artifact = None
    ) -> None:
        """Say that what an operation promised is there.

        `operation`: its name, or its digest as the page shows it. `root`: the run that a branch (`br_…`)
        comes from. `artifact`: what was found, where that may be something else than what was promised.
        Raises NothingDelegated, GateUnreachable, GateRefused, and ValueError for a branch without its root.
        """
        self._say("outcome_verified", run, operation, root, artifact)

    def outcome_failed(
        self, run: str, operation: str, *, root: str | None = None, artifact: Artifact = None
    ) -> None:
        """Say that it was looked for, and is not there; takes and raises what `outcome_verified` does."""
        self._say("outcome_failed", run, operation, root, artifact)

    def flush(self, timeout: float = 10.0) -> bool:
        """Wait at most so many seconds until the server answered for everything; returns whether it did."""
        return self._recorder.flush(timeout)

    def status(self) -> dict[str, int | str | None]:
        """Return counts and short codes; `refused` counts what the server did not take."""
        return self._recorder.status()

    def close(self) -> None:
        """Stop delivering and let go of the home."""
        self._recorder.close()

    def _say(self, event: str, run: str, operation: str, root: str | None, artifact: Artifact) -> None:
        if root is None and not is_id(run, "run"):
            raise ValueError("root: required for a branch")
        recorder = self._recorder
        record = recorder.record(run, root or run, OwnGate(run, recorder.answers))
        record.go_on()
        named = operation if operation.startswith(_DIGEST) else operation_digest(record, operation)
        attempt = self._newest(record, named)
        said = [each for each in attempt.events if each in OUTCOMES]
        if said[-1:] == [event]:
            return  # said again, it is the event that is written already
        found = None if artifact is None else artifact_digest(record, artifact)
        record.handoffs.write(attempt, event, None, {"expected_artifact": found})

    def _newest(self, record: RunRecord, operation: str) -> Kept:
        """Return the attempt that an outcome is of: the one delegated last, as the server has it."""
        found = self._delegated.newest(record.run, operation)
        if found is None:
            raise NothingDelegated("operation: not_delegated")
        known = self._recorder.answers.handoffs.attempt(operation, found.handoff)
        return known or Kept(
            operation, found.handoff, record.run, found.sender, found.receiver, found.artifact
        )


def _own_version() -> str:
    try:
        return version("branchgate")
    except PackageNotFoundError:
        return "0"
