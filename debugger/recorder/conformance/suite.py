"""The conformance suite: each check is a promise about permits, and a gate that puts it to the test."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from branches.evidence import ids
from branches.evidence.signing import Signer, sign_permit
from debugger.recorder.conformance.gate import Gate, claims_of
from debugger.recorder.conformance.subject import Subject

SUITE: Final = "1"
"""Its version: a report of another one says something else."""


class NotKept(Exception):
    """A promise was not kept; the word says what happened instead."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One check: whether the promise was kept, and a short word of what happened where it was not."""

    name: str
    kept: bool
    word: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a recorder did in a whole suite."""

    suite: str
    runtime: str
    version: str
    outcomes: tuple[Outcome, ...]

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.outcomes if each.kept)

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.outcomes if not each.kept)

    def as_json(self) -> dict[str, Any]:
        """Return the report as a server takes it."""
        return {
            "runtime": self.runtime,
            "runtime_version": self.version,
            "suite": self.suite,
            "passed": list(self.passed),
            "failed": list(self.failed),
        }


@dataclass(frozen=True, slots=True)
class Trial:
    """One fresh world: a gate, and a team that was recorded at it."""

    gate: Gate
    subject: Subject

    def permit(self, **changed: Any) -> dict[str, Any]:
        return self.gate.permit(checkpoint=dict(self.subject.checkpoint(self.gate)), **changed)

    def start(self, envelope: Mapping[str, Any]) -> None:
        """Take a permit that nothing stands in the way of: a promise is kept by a branch that runs."""
        self.subject.resume(envelope)
        if not self.subject.exists(str(claims_of(dict(envelope))["branch"])):
            raise NotKept("never_started")

    def expect_nothing(self, envelope: Mapping[str, Any], calls: list[str]) -> None:
        """Nothing of the branch exists, and no tool was called for it."""
        if self.subject.exists(str(claims_of(dict(envelope))["branch"])):
            raise NotKept("branch_exists")
        if self.subject.calls() != calls:
            raise NotKept("tool_called")


def run_suite(make: Callable[[], Subject]) -> Report:
    """Run every check in a world of its own. Raises what `make` raises where the runtime is not here."""
    probe = make()
    outcomes = tuple(_outcome(name, check, make) for name, check in CHECKS.items())
    return Report(SUITE, probe.runtime, probe.version, outcomes)


def _outcome(name: str, check: Callable[[Trial], None], make: Callable[[], Subject]) -> Outcome:
    subject = make()
    gate = Gate(dict(subject.declaration))
    try:
        with tempfile.TemporaryDirectory(prefix="branchgate-conformance-") as folder:
            try:
                subject.record(gate, Path(folder))
                check(Trial(gate, subject))
            finally:
                subject.close()
    except NotKept as error:
        return Outcome(name, False, str(error))
    except Exception as error:  # noqa: BLE001 - whatever a recorder does instead is its answer
        return Outcome(name, False, f"failed_{type(error).__name__.lower()}")
    finally:
        gate.close()
    return Outcome(name, True, "")


def _refuses_a_foreign_signature(trial: Trial) -> None:
    envelope = trial.permit()
    forged = sign_permit(claims_of(envelope), Signer(b"x" * 32))
    _refuses(trial, forged, redeemed=False)


def _refuses_a_changed_payload(trial: Trial) -> None:
    envelope, other = trial.permit(), trial.permit()
    _refuses(trial, {**envelope, "payload": other["payload"]}, redeemed=False)


def _refuses_another_audience(trial: Trial) -> None:
    _refuses(trial, trial.permit(audience=ids.mint("rec")), redeemed=False)


def _refuses_an_expired_permit(trial: Trial) -> None:
    then = datetime.now(UTC) - timedelta(minutes=20)
    ended = then + timedelta(minutes=10)
    envelope = trial.permit(issued_at=then.isoformat(), expires_at=ended.isoformat())
    _refuses(trial, envelope, redeemed=False)


def _refuses_another_configuration(trial: Trial) -> None:
    _refuses(trial, trial.permit(configuration="sha256:" + "0" * 64), redeemed=False)


def _refuses_another_state(trial: Trial) -> None:
    state = dict.fromkeys(trial.subject.checkpoint(trial.gate)["state"], "hmac-sha256:0badc0de:" + "0" * 64)
    _refuses(trial, trial.permit(state=state), redeemed=False)


def _obeys_the_gate(trial: Trial) -> None:
    trial.gate.errors["redeem"] = 409
    _refuses(trial, trial.permit(), redeemed=False)


def _fails_closed(trial: Trial) -> None:
    trial.gate.errors["redeem"] = 503
    _refuses(trial, trial.permit(), redeemed=False)


def _redeems_before_anything_exists(trial: Trial) -> None:
    envelope = trial.permit()
    branch, calls = claims_of(envelope)["branch"], trial.subject.calls()
    found: list[str] = []

    def look() -> None:
        if trial.subject.exists(branch):
            found.append("branch_exists")
        if trial.subject.calls() != calls:
            found.append("tool_called")

    trial.gate.at_redemption = look
    trial.start(envelope)
    if trial.gate.redeem_calls == 0:
        raise NotKept("never_redeemed")
    if found:
        raise NotKept(found[0])


def _starts_once(trial: Trial) -> None:
    envelope = trial.permit()
    trial.start(envelope)
    calls = trial.subject.calls()
    trial.subject.resume(envelope)
    if trial.subject.calls() != calls:
        raise NotKept("started_again")
    if trial.gate.redeem_calls != 1:
        raise NotKept("redeemed_again")


def _stops_at_a_revocation(trial: Trial) -> None:
    before = len(trial.subject.calls())
    trial.gate.revoked_after = 2  # before the start, and before the first step
    trial.subject.resume(trial.permit())
    if len(trial.subject.calls()) - before > 1:
        raise NotKept("went_on")


def _stops_without_a_lease(trial: Trial) -> None:
    before = trial.subject.calls()
    trial.gate.errors["lease"] = 503
    trial.subject.resume(trial.permit())
    if trial.subject.calls() != before:
        raise NotKept("went_on")


def _leaves_the_parent_alone(trial: Trial) -> None:
    parent = trial.subject.parent()
    trial.start(trial.permit())
    if trial.subject.parent() != parent:
        raise NotKept("parent_changed")


def _does_not_repeat_what_is_reused(trial: Trial) -> None:
    intended = trial.gate.of(trial.gate.run_id(), "effect_intended")
    operations = {each["operation_key"]: {"do": "reuse", "payload": each["payload"]} for each in intended}
    calls = trial.subject.calls()
    trial.start(trial.permit(operations=operations))
    if trial.subject.calls() != calls:
        raise NotKept("tool_called")


def _refuses(trial: Trial, envelope: Mapping[str, Any], *, redeemed: bool) -> None:
    calls = trial.subject.calls()
    trial.subject.resume(envelope)
    trial.expect_nothing(envelope, calls)
    if bool(trial.gate.redemptions) != redeemed:
        raise NotKept("redeemed")


CHECKS: Final[Mapping[str, Callable[[Trial], None]]] = {
    "foreign_signature": _refuses_a_foreign_signature,
    "changed_payload": _refuses_a_changed_payload,
    "another_audience": _refuses_another_audience,
    "expired": _refuses_an_expired_permit,
    "another_configuration": _refuses_another_configuration,
    "another_state": _refuses_another_state,
    "gate_refuses": _obeys_the_gate,
    "gate_unreachable": _fails_closed,
    "redeemed_before_it_exists": _redeems_before_anything_exists,
    "started_once": _starts_once,
    "revoked_between_steps": _stops_at_a_revocation,
    "lease_lost": _stops_without_a_lease,
    "parent_untouched": _leaves_the_parent_alone,
    "reused_not_repeated": _does_not_repeat_what_is_reused,
}
