"""One attempt at a permit on any runtime: checks, one redemption, a proof of the restore, one start."""

import json
import re
import time
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from branches.evidence.ids import derive_id
from branches.evidence.signing import PermitClaims, SignatureInvalid, verify_permit
from debugger.recorder import crash, journal
from debugger.recorder.checks import MATCHED, Blocked
from debugger.recorder.client import GateRefused, GateUnreachable
from debugger.recorder.gates import PermitGate
from debugger.recorder.homes import place_of
from debugger.recorder.journal import Busy, Journal, Step
from debugger.recorder.lease import Lease
from debugger.recorder.record import RunRecord
from debugger.recorder.stops import StopAsked

if TYPE_CHECKING:
    from debugger.recorder import Recorder

BASELINE_PAUSES_S: Final = (1.0, 2.0, 4.0, 8.0)
# A destination that did not answer: the permit is as good as before, and is tried again.
_PASSING: Final = frozenset({"asked_meanwhile", "baseline_unreachable", "destination_unreachable"})
_REFUSED: Final = "refused_"
_UNREACHABLE: Final = "gate_unreachable"
_RULE: Final = re.compile("[a-z][a-z0-9_]{0,47}")


class Attempt[Source](ABC):
    """One attempt at one permit; what is checked, loaded and run is the runtime's own."""

    def __init__(
        self,
        recorder: "Recorder",
        claims: PermitClaims,
        is_stopped: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._recorder = recorder
        self._claims = claims
        self._is_stopped = is_stopped
        self._place = place_of(recorder.home)
        self._lease = Lease(recorder, claims.branch, self.attempt)

    @property
    def attempt(self) -> str:
        """The attempt's id: whoever tries again from the same home is the same attempt.

        It derives from the permit and from where the home lies: the gate lets one attempt redeem, so a copy
        of the home, on this machine or on another one, cannot start the same permit again.
        """
        return derive_id("att", self._claims.permit, self._place)

    @property
    def thread(self) -> str:
        """The branch's own thread in the runtime."""
        return self._claims.branch

    @abstractmethod
    def _check(self, *, is_redeemed: bool) -> Source:
        """Return where the branch comes from. Raises Blocked; nothing is changed here."""

    @abstractmethod
    def _load(self, steps: Journal, source: Source) -> bool:
        """Load the branch; doing it again leaves the same; returns whether all of it is there."""

    @abstractmethod
    def _restored_state(self, source: Source, *, is_whole: bool) -> dict[str, dict[str, Any]]:
        """Hash what was loaded: `{key: {"fingerprint", "result"}}`."""

    @abstractmethod
    def _prepare(self, record: RunRecord, source: Source) -> Callable[[], str]:
        """Return what runs the branch to its stop and gives the stop's word; nothing runs yet."""

    def go(self, steps: Journal, envelope: Mapping[str, Any]) -> str:
        """Take the branch as far as it may go; returns the word it ended with.

        Raises Blocked before the redemption when a check fails, GateUnreachable or GateRefused when the
        gate does not open. From `starting` on nothing is ever started again by itself.
        """
        if steps.last is not None and not steps.last.may_go_on:
            _refuse_again(steps)
            return "already_started"
        source = self._check(is_redeemed=steps.find(Step.REDEEMED) is not None)
        steps.note(Step.REDEEMING, envelope=dict(envelope))
        self._redeem(steps)
        record = self._record()
        if not self._restore(steps, record, source):
            steps.note(Step.ENDED, word="not_restored")
            return "not_restored"
        return self._start(steps, record, source)

    def _redeem(self, steps: Journal) -> None:
        if (noted := steps.find(Step.REDEEMED)) is None:
            answer = self._ask_to_redeem(steps)
            crash.here("after_redeem")
            noted = steps.note(Step.REDEEMED, lease_s=int(answer["lease_s"]))
        self._lease.seconds = float(noted["lease_s"])

    def _ask_to_redeem(self, steps: Journal) -> dict[str, Any]:
        """Redeem; a destination that could not say what it holds now is waited for, but not for long."""
        pauses = iter(BASELINE_PAUSES_S)
        while True:
            try:
                return self._recorder.client.redeem(
                    self._claims.permit, self._recorder.identity.recorder, self.attempt
                )
            except GateRefused as error:
                pause = next(pauses, None) if error.rule in _PASSING else None
                if pause is None or not self._is_alive_in(pause):
                    steps.note(Step.ENDED, word=f"{_REFUSED}{error.rule}")
                    raise
            self._wait(pause)

    def _is_alive_in(self, seconds: float) -> bool:
        return datetime.now(UTC) + timedelta(seconds=seconds) < self._claims.expires_at

    def _wait(self, seconds: float) -> None:
        """Wait, unless the recorder is told to stop: then the permit is left for its next start."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._is_stopped(self._claims.branch):
                raise GateUnreachable("stopped while waiting")
            time.sleep(min(left, 0.2))

    def _restore(self, steps: Journal, record: RunRecord, source: Source) -> bool:
        """Load, hash again and say so; returns whether everything came back as it was pinned."""
        noted = steps.find(Step.RESTORED)
        if noted is None:
            is_whole = self._load(steps, source)
            body = {
                "permit": self._claims.permit,
                "attempt": self.attempt,
                "state": self._restored_state(source, is_whole=is_whole),
            }
            noted = steps.note(Step.RESTORED, receipt=record.draft("restored", body), whole=is_whole)
        record.write(noted["receipt"], durable=True)
        crash.here("after_restored")
        found = noted["receipt"]["body"]["state"]
        return bool(noted["whole"]) and all(each["result"] == MATCHED for each in found.values())

    def _start(self, steps: Journal, record: RunRecord, source: Source) -> str:
        """Start once: from here on a program that finds the journal leaves the branch alone."""
        run = self._prepare(record, source)
        try:
            self._go_on()
        except StopAsked:
            steps.note(Step.ENDED, word="stopped_before_start")
            return "stopped_before_start"
        steps.note(Step.STARTING)
        crash.here("after_starting")
        record.emit("started", {"permit": self._claims.permit, "attempt": self.attempt}, durable=True)
        steps.note(Step.STARTED)
        crash.here("after_started")
        word = "unknown"
        try:
            word = run()
        finally:
            steps.note(Step.ENDED, word=word)
        return word

    def _record(self) -> RunRecord:
        claims, bound = self._claims, self._claims.bound
        operations: Any = bound["operations"]
        gate = PermitGate(claims.branch, operations, claims.issued_at, self._recorder.answers)
        return self._recorder.record(claims.branch, str(bound["root"]), gate, self.attempt)

    def _go_on(self) -> None:
        """Ask before a step. Raises StopAsked."""
        if self._is_stopped(self._claims.branch):
            raise StopAsked("stop: revoked")
        self._lease.renew()


def take(
    recorder: "Recorder", envelope: Mapping[str, Any], make: Callable[[PermitClaims], Attempt[Any]]
) -> str:
    """Take one permit as far as it may go; returns a closed word and never raises for a refusal.

    A permit whose signature does not hold, or that is another's, is left alone. One that fails a check, or
    that the gate refuses for good, is declined with the rule: nobody must wait for it any longer.
    """
    try:
        claims = _claims(recorder, envelope)
    except SignatureInvalid as error:
        return f"ignored_{error.rule}"
    permit = claims.permit
    try:
        with journal.opened(recorder.home / "branches", claims.branch, claims.permit) as steps:
            if steps.find(Step.REDEEMING) is None and datetime.now(UTC) >= claims.expires_at:
                return "ignored_expired"
            return make(claims).go(steps, envelope)
    except Busy:
        return "busy"
    except GateUnreachable:
        return _UNREACHABLE
    except GateRefused as error:
        word = _decline(recorder, permit, error.rule)
        return word if word == _UNREACHABLE else f"{_REFUSED}{error.rule}"
    except Blocked as error:
        return _decline(recorder, permit, error.rule)


def _refuse_again(steps: Journal) -> None:
    """Raise the refusal that ended a permit: the server may not have heard yet that it is given up."""
    ended = steps.find(Step.ENDED) or {}
    if str(ended.get("word", "")).startswith(_REFUSED):
        raise GateRefused(409, str(ended["word"]).removeprefix(_REFUSED))


def _decline(recorder: "Recorder", permit: str, rule: str) -> str:
    """Say that a permit will not be used; a server that is away is told when it is asked next."""
    recorder.problems.add(rule)
    word = rule.partition(":")[0]  # what stands behind is for people, and no rule
    try:
        recorder.client.decline(
            permit, recorder.identity.recorder, word if _RULE.fullmatch(word) else "refused"
        )
    except GateUnreachable:
        return _UNREACHABLE
    except GateRefused:
        return f"blocked_{rule}"
    return f"declined_{rule}"


def _claims(recorder: "Recorder", envelope: Mapping[str, Any]) -> PermitClaims:
    """Verify the signature offline. An expired permit's claims are still read: it may be redeemed already."""
    identity = recorder.identity
    now = datetime.now(UTC)
    try:
        return verify_permit(envelope, identity.server_keys, audience=identity.recorder, now=now)
    except SignatureInvalid as error:
        if error.rule != "expired":
            raise
    issued = datetime.fromisoformat(json.loads(b64decode(envelope["payload"]))["issued_at"])
    return verify_permit(envelope, identity.server_keys, audience=identity.recorder, now=issued)
