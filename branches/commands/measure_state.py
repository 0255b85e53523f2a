"""Measures one state key of a branch: captures the past where a journal kept it, and compares it with now."""

from django.db import transaction

from branches.commands.append_receipt import Actor, append_receipt
from branches.commands.fit_answers import fit_measurement
from branches.commands.guards import Wanted, always, open_branch
from branches.commands.plugin_words import BREAKS, broke, may_answer_later, report_broken
from branches.commands.refusal import Refused, Unanswered
from branches.commands.supersede_requests import supersede_requests
from branches.evidence.drift import changes, parts_in
from branches.models import Run
from branches.ports import Moment, StateMeasurement, StateProbe, Target, Unsupported
from branches.queries.branch_facts import branch_view
from branches.queries.chains import latest
from branches.queries.state_evidence import KeyEvidence
from branches.queries.targets import target
from branches.registry import find


def measure_state(*, branch: Run, key: str, is_last_try: bool = True, is_wanted: Wanted = always) -> str:
    """Ask the key's probe and record what it said; returns the result's word.

    The probe is asked outside the transaction; only its answer is written under the lock. Before the last
    try a place that was not reached is not recorded, and Unanswered is raised. A probe that breaks
    has reached nothing, which is recorded before PluginBroke is raised. An answer that is no longer wanted is
    not recorded.
    """
    view = branch_view(branch)
    if view.redemption is not None:
        raise Refused(rule="sealed")
    evidence = next((item for item in view.keys if item.key.name == key), None)
    if evidence is None:
        raise Refused(rule="declared", field="key")
    probe = find("probes", evidence.key.probe)
    place = target(branch.workspace, evidence.key.target)
    started = latest(view.fork.parent_id, "run_started")
    at = view.checkpoint.at if view.checkpoint else view.at
    moment = Moment(started.body["external_ref"] if started else None, view.fork.checkpoint, at, branch.uid)
    captured = _capture(probe, place, moment, evidence)
    measured = _measure(probe, place, moment)
    if not measured.reachable and may_answer_later(measured.problem) and not is_last_try:
        raise Unanswered
    with transaction.atomic():
        open_branch(branch)
        if not is_wanted():
            return _result(measured, evidence.at_checkpoint)
        actor = Actor.product(branch.workspace)
        if captured is not None:
            append_receipt(
                run=branch,
                kind="state_captured",
                body={"key": key, "fingerprint": captured.fingerprint, "probe": evidence.key.probe},
                actor=actor,
                subject=key,
            )
        expected = evidence.at_checkpoint or (captured.fingerprint if captured else None)
        result = _result(measured, expected)
        before = parts_in(evidence.facts) or (captured.parts if captured else {})
        append_receipt(
            run=branch,
            kind="state_measured",
            body={
                "key": key,
                "fingerprint": measured.fingerprint,
                "result": result,
                "limits": [evidence.key.probe],
                "probe": evidence.key.probe,
                "drift": changes(before, measured.parts) if result == "drifted" else [],
            },
            actor=actor,
            subject=key,
        )
        supersede_requests(root_ids=[branch.family_id])
    report_broken(measured.problem)
    return result


def _capture(
    probe: StateProbe, place: Target, moment: Moment, evidence: KeyEvidence
) -> StateMeasurement | None:
    """Return the past state where the checkpoint does not hold it and the probe's journal does."""
    if evidence.at_checkpoint is not None:
        return None
    try:
        captured = fit_measurement(probe.capture(place, moment))
    except Unsupported:
        return None
    except BREAKS:
        return None
    return captured if captured.fingerprint is not None else None


def _measure(probe: StateProbe, place: Target, moment: Moment) -> StateMeasurement:
    try:
        return fit_measurement(probe.measure(place, moment))
    except BREAKS as error:
        return StateMeasurement(None, reachable=False, problem=broke(error))


def _result(measured: StateMeasurement, expected: str | None) -> str:
    if not measured.reachable or measured.fingerprint is None:
        return "unreachable"
    if expected is None:
        return "not_restored"
    return "matched" if measured.fingerprint == expected else "drifted"
