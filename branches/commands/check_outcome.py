"""Asks the declared verifier for the expected outcome, and records its word: the only way to gate 6."""

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.fit_answers import fit_baseline, fit_check
from branches.commands.guards import Wanted, always, require_role
from branches.commands.plugin_words import BREAKS, broke, report_broken
from branches.commands.refusal import Refused
from branches.commands.watch_audits import watch_audits
from branches.evidence.kinds.product import MOST_TERMS, PERSON_VERIFIER
from branches.evidence.versions import is_newer
from branches.models import Person, Redemption, Role, Run
from branches.ports import Baseline, Check, OutcomeCheck
from branches.queries.chains import Link, latest
from branches.queries.declarations import Declaration, ExpectedOutcome, declaration_of
from branches.queries.ledger import operation_keys
from branches.queries.targets import TargetMissing, target
from branches.registry import PluginMissing, PluginUnfit, find


def check_outcome(*, run: Run, is_wanted: Wanted = always) -> str:
    """Ask outside the transaction, record under the lock what is still wanted; returns the check's word."""
    declaration = declaration_of(run)
    if declaration is None:
        raise Refused(rule="no_declared_outcome")
    if declaration.outcome.verifier == PERSON_VERIFIER:
        raise Refused(rule="a_person_decides")
    baseline, before = baseline_of(run), latest(run.pk, "outcome_checked")
    answer = _ask(run, declaration, baseline)
    with transaction.atomic():
        lock_families([run.family_id])
        if not is_wanted():
            return str(answer.check)
        last = latest(run.pk, "outcome_checked")
        if last is not None and last != before and not _is_later(answer, last):
            # The destination said something while it was asked: its answer is older than that.
            return str(last.body["check"])
        record_check(run=run, declaration=declaration, answer=answer)
    report_broken(answer.problem)
    return str(answer.check)


def _is_later(answer: OutcomeCheck, last: Link) -> bool:
    version = last.body["destination_version"]
    return (
        answer.version is not None and version is not None and is_newer(answer.version, str(version)) is True
    )


def is_overtaken(version: str, last: Link | None) -> bool:
    """Return whether a version is older than the one that the newest check is about."""
    known = None if last is None else last.body["destination_version"]
    return known is not None and version != str(known) and is_newer(version, str(known)) is False


def record_check(
    *, run: Run, declaration: Declaration, answer: OutcomeCheck, by: Person | None = None
) -> None:
    """Append the destination's or a person's word; nothing found yet is a failed check, never silence."""
    check = Check.FAILED if answer.check is Check.NONE else answer.check
    append_receipt(
        run=run,
        kind="outcome_checked",
        body={
            "expected": declaration.outcome.expected,
            "issuer": {"type": "destination", "name": None}
            if by is None
            else {"type": "human", "name": by.uid},
            "check": str(check),
            "fresh": answer.fresh,
            "artifact": answer.artifact,
            "destination_version": answer.version,
            "operation_key": answer.operation_key,
            "difference": list(answer.difference[:MOST_TERMS]),
        },
        actor=Actor.product(run.workspace) if by is None else Actor.person(by),
        subject=declaration.outcome.expected,
    )
    watch_audits(run=run, receipts=[{"kind": "outcome_checked"}])


def baseline_of(run: Run) -> str | None:
    """Return the version that stood at the destination before a run began. Raises Refused."""
    if run.parent_id is None:
        taken = latest(run.pk, "baseline_taken")
        if taken is None or not taken.body["reachable"]:
            raise Refused(rule="no_baseline")
        return _version(taken.body["destination_version"])
    done = Redemption.objects.filter(branch=run).first()
    if done is None:
        raise Refused(rule="outcome_before_resume")
    return done.baseline


def _version(value: str | int | None) -> str | None:
    return None if value is None else str(value)


def ask_baseline(run: Run, outcome: ExpectedOutcome) -> Baseline:
    """Return what stands at the destination now; a verifier that fails has reached nothing."""
    try:
        place = target(run.workspace, outcome.target)
        return fit_baseline(find("verifiers", outcome.verifier).baseline(place, outcome.expected))
    except TargetMissing:
        return Baseline(None, reachable=False, problem="target_missing")
    except (PluginMissing, PluginUnfit):
        return Baseline(None, reachable=False, problem="plugin_missing")
    except BREAKS as error:
        return Baseline(None, reachable=False, problem=broke(error))


def take_run_baseline(*, run: Run, is_wanted: Wanted = always) -> None:
    """Ask what the destination holds when a root run has begun, so that older artifacts prove nothing of it.

    A run that has stopped already gets none: what it made could no longer be told from what was there.
    For the same reason a second one is not taken.
    """
    declaration = declaration_of(run)
    if declaration is None:
        raise Refused(rule="no_declared_outcome")
    _check_that_it_is_early(run)
    taken = ask_baseline(run, declaration.outcome)
    with transaction.atomic():
        lock_families([run.family_id])
        if not is_wanted():
            return
        _check_that_it_is_early(run)
        append_receipt(
            run=run,
            kind="baseline_taken",
            body={
                "expected": declaration.outcome.expected,
                "destination": None,
                "reachable": taken.reachable,
                "destination_version": taken.version,
            },
            actor=Actor.product(run.workspace),
            subject=declaration.outcome.expected,
        )


def _check_that_it_is_early(run: Run) -> None:
    """Looked at again under the lock, for a run can stop while the destination is asked."""
    taken = latest(run.pk, "baseline_taken")
    if latest(run.pk, "stopped") is not None or (taken is not None and taken.body["reachable"]):
        raise Refused(rule="too_late_for_a_baseline")


def _ask(run: Run, declaration: Declaration, baseline: str | None) -> OutcomeCheck:
    try:
        place = target(run.workspace, declaration.outcome.target)
    except TargetMissing:
        return OutcomeCheck(Check.UNREACHABLE, problem="target_missing")
    verifier = find("verifiers", declaration.outcome.verifier)
    try:
        return fit_check(verifier.check(place, declaration.outcome.expected, baseline, operation_keys(run)))
    except BREAKS as error:
        return OutcomeCheck(Check.UNREACHABLE, problem=broke(error))


def offer_outcome(*, person: Person, branch: Run, version: str) -> None:
    """Take a person's word that a version at the destination is this branch's outcome.

    The destination is asked, not believed: an artifact that stood there before the resume is refused.
    """
    require_role(person, branch, Role.ENGINEER)
    declaration = declaration_of(branch)
    if declaration is None:
        raise Refused(rule="no_declared_outcome")
    if declaration.outcome.verifier == PERSON_VERIFIER:
        raise Refused(rule="a_person_decides")
    baseline = baseline_of(branch)
    answer = _ask(branch, declaration, baseline)
    if answer.check is Check.UNREACHABLE:
        raise Refused(rule="unreachable")
    if version == baseline or (answer.version == version and not answer.fresh):
        raise Refused(rule="not_fresh", field="version")
    if answer.version != version:
        raise Refused(rule="not_at_destination", field="version")
    with transaction.atomic():
        lock_families([branch.family_id])
        record_check(run=branch, declaration=declaration, answer=answer)
