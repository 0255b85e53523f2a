"""Asks a destination about one operation by its stable key, and records the answer."""

from collections.abc import Iterable

from django.db import transaction

from branches.commands.accept_by_policy import accept_by_policy
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.fit_answers import fit_answer
from branches.commands.guards import Wanted, always, open_effect
from branches.commands.plugin_words import BREAKS, broke, may_answer_later, report_broken
from branches.commands.refusal import Refused, Unanswered
from branches.commands.supersede_requests import supersede_requests
from branches.models import Run
from branches.ports import Answer, DestinationAnswer, Question
from branches.queries.branch_facts import branch_view, late_effects
from branches.queries.clock import now as moment
from branches.queries.declarations import declaration_of
from branches.queries.ledger import EffectLine, effect_line
from branches.queries.targets import TargetMissing, target
from branches.registry import find


def ask_destination(
    *,
    branch: Run,
    operation_key: str,
    is_last_try: bool = True,
    is_wanted: Wanted = always,
) -> str:
    """Ask outside the transaction, record under the lock; returns the answer's word.

    An unknown answer is recorded as such: it reads as pending, never as absent. Before the last try it is
    not recorded, and Unanswered is raised. An answer that is no longer wanted is not recorded either. Of a
    plug-in that breaks nothing is known, which is recorded before PluginBroke is raised.
    """
    line, declaration = effect_line(branch, operation_key, moment()), declaration_of(branch)
    if line is None:
        raise Refused(rule="unknown", field="operation_key")
    if line.is_unaccounted or line.destination is None or declaration is None:
        raise Refused(rule="destination_undeclared", field="operation_key")
    rule = declaration.destinations.get(line.destination)
    if rule is None:
        raise Refused(rule="destination_undeclared", field="operation_key")
    answer = _ask(branch, line, rule.query, rule.target)
    if answer.answer is Answer.UNKNOWN and may_answer_later(answer.problem) and not is_last_try:
        raise Unanswered
    with transaction.atomic():
        now = open_effect(branch, line.operation_key)
        # Under the lock: what is asked for after a cancellation is recorded after this, or without it.
        if not is_wanted():
            return str(answer.answer)
        if not is_last_try and now is not None and _is_contradicted(line, now, answer):
            raise Unanswered
        _append(branch, line, now, answer)
        accept_by_policy(branch=branch, operation_key=operation_key, rule=rule, policy=declaration.digest)
        supersede_requests(root_ids=[branch.family_id])
    report_broken(answer.problem)
    return str(answer.answer)


def record_answers(*, branch: Run, answers: Iterable[tuple[EffectLine, DestinationAnswer]]) -> None:
    """Append what destinations said about effects as those were when they were asked. Raises Refused.

    The branch is read once for all of them; the caller holds a transaction.
    """
    if branch.parent_id is None:
        raise Refused(rule="not_a_branch")
    lock_families([branch.family_id])
    view = branch_view(branch)
    late = late_effects(view)
    standing = {line.operation_key: line for line in view.effects}
    for line, answer in answers:
        if view.redemption is not None and line.operation_key not in late:
            raise Refused(rule="sealed")
        _append(branch, line, standing.get(line.operation_key), answer)
    supersede_requests(root_ids=[branch.family_id])


def said(line: EffectLine) -> tuple[str, str | None] | None:
    """Return the answer that stands in the record, with its fingerprint, or None where nobody was asked."""
    return None if line.asked is None else (line.asked.body["answer"], line.asked.body["fingerprint"])


def _append(branch: Run, line: EffectLine, now: EffectLine | None, answer: DestinationAnswer) -> None:
    if now is None or now.moved_at != line.moved_at:
        # The answer is older than what it would be taken for.
        raise Refused(rule="called_meanwhile", field="operation_key")
    if _is_contradicted(line, now, answer):
        raise Refused(rule="asked_meanwhile", field="operation_key")
    append_receipt(
        run=branch,
        kind="effect_asked",
        body={
            "operation_key": line.operation_key,
            "destination": line.destination,
            "answer": str(answer.answer),
            "fingerprint": answer.fingerprint,
            "destination_ref": answer.ref,
            "destination_version": answer.version,
        },
        actor=Actor.product(branch.workspace),
        subject=line.operation_key,
    )


def _is_contradicted(line: EffectLine, now: EffectLine, answer: DestinationAnswer) -> bool:
    """Whether somebody else was told something else meanwhile: nobody knows which answer is the newer."""
    return now.asked != line.asked and said(now) != (str(answer.answer), answer.fingerprint)


def _ask(branch: Run, line: EffectLine, query: str, place: str) -> DestinationAnswer:
    try:
        where = target(branch.workspace, place)
    except TargetMissing:
        return DestinationAnswer(Answer.UNKNOWN, problem="target_missing")
    destination = find("destinations", query)
    try:
        return fit_answer(destination.ask(where, Question(line.operation_key, line.tool, line.payload)))
    except BREAKS as error:
        return DestinationAnswer(Answer.UNKNOWN, problem=broke(error))
