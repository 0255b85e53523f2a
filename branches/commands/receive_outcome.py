"""Takes an outcome that the registered destination pushed, signed: asked or not, only its word counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families, lock_names
from branches.commands.check_outcome import baseline_of, is_overtaken, record_check
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.evidence.domains import CONTENT, REF
from branches.evidence.kinds.product import PERSON_VERIFIER
from branches.evidence.versions import is_newer
from branches.models import InboundMessage, Run, Workspace
from branches.ports import Check, OutcomeCheck
from branches.queries.chains import latest
from branches.queries.clock import now
from branches.queries.declarations import Declaration, declaration_of
from branches.queries.ledger import operation_keys
from branches.queries.lookups import NotHere, run_named
from branches.queries.secrets import workspace_key

_CHECKS: Final[Mapping[str, Check]] = {"passed": Check.PASSED, "failed": Check.FAILED}


@dataclass(frozen=True, slots=True)
class Pushed:
    """What a destination said: about which run, which outcome, at which of its own versions."""

    run: str
    expected: str
    check: str
    operation_key: str
    version: str
    artifact: str | None


def receive_outcome(*, workspace: Workspace, place: str, message: str, raw: bytes, pushed: Pushed) -> str:
    """Record a pushed outcome once; returns the check's word.

    Or `repeated` for a message that is known, and `overtaken` for one that is older than what is recorded,
    or of another's operation and no success.

    The signature was verified under the place's secret. An outcome whose order against the baseline is
    unknown, or that is of another's operation, is recorded as what it is and verifies nothing. Raises
    Refused.
    """
    if pushed.check not in _CHECKS:
        raise Refused(rule="enum", field="check")
    run, declaration = _entitled(workspace, place, pushed)
    key = workspace_key(workspace)
    name, body = key.digest(REF, f"webhook\0{place}\0{message}"), key.digest(CONTENT, raw)
    with transaction.atomic():
        lock_names([name])
        lock_families([run.family_id])
        known = InboundMessage.objects.filter(workspace=workspace, place=place, message=name).first()
        if known is None:
            answer = _answer(run, pushed)
            InboundMessage.objects.create(
                workspace=workspace, place=place, message=name, body=body, run=run, at=now()
            )
            if answer is None:
                return "overtaken"
            record_check(run=run, declaration=declaration, answer=answer)
            return str(answer.check)
        if known.body != body:
            _record_conflict(known, body)
    if known.body != body:
        raise Refused(rule="conflict", field="webhook-id")
    return "repeated"


def _entitled(workspace: Workspace, place: str, pushed: Pushed) -> tuple[Run, Declaration]:
    """Return the run and its declaration; only the destination that was declared may speak of it."""
    try:
        run = run_named(workspace, pushed.run)
    except NotHere:
        raise Refused(rule="unknown", field="run") from None
    declaration = declaration_of(run)
    if declaration is None or declaration.outcome.target != place:
        raise Refused(rule="not_entitled", field="run")
    if declaration.outcome.verifier == PERSON_VERIFIER:
        raise Refused(rule="a_person_decides", field="run")
    if declaration.outcome.expected != pushed.expected:
        raise Refused(rule="declared", field="expected")
    return run, declaration


def _answer(run: Run, pushed: Pushed) -> OutcomeCheck | None:
    """Judge what was pushed as if it had been asked for; None where it says nothing of the run now."""
    check, is_fresh, baseline = _CHECKS[pushed.check], False, baseline_of(run)
    is_ours = pushed.operation_key in operation_keys(run)
    last = latest(run.pk, "outcome_checked")
    if is_overtaken(pushed.version, last) or (check is Check.FAILED and not is_ours):
        return None
    newer = True if baseline is None else is_newer(pushed.version, baseline)
    if check is Check.PASSED:
        check = Check.UNREACHABLE if newer is None else check
        is_fresh = bool(newer) and is_ours
    elif newer is False:
        return None  # what stood there before says nothing of this run
    return OutcomeCheck(
        check,
        fresh=is_fresh,
        artifact=pushed.artifact,
        version=pushed.version,
        operation_key=pushed.operation_key,
    )


def _record_conflict(known: InboundMessage, offered: str) -> None:
    event = ids.derive_id("evt", known.run.uid, known.message)
    kept, refused = _plain(known.body), _plain(offered)
    last = latest(known.run.pk, "conflict", event)
    if last is not None and last.body["refused"] == refused:
        return
    append_receipt(
        run=known.run,
        kind="conflict",
        body={
            "event_id": event,
            "writer": known.workspace.uid,
            "kept": kept,
            "refused": refused,
        },
        actor=Actor.product(known.workspace),
        subject=event,
    )


def _plain(keyed: str) -> str:
    """Return a keyed digest in the form that a conflict has for both its sides."""
    return f"sha256:{keyed.rpartition(':')[2]}"
