"""Who may say what of a run, and what belies the run's own declaration."""

from collections.abc import Mapping
from typing import Any, Final

from branches.models import Recorder, Run
from branches.queries.declarations import Declaration

_OWN_WORD: Final = frozenset({"loop", "model"})
# A hand-over has two sides, and what the other says is evidence too: it is kept, and not trusted.
_FROM_ANYBODY: Final = frozenset({"handoff"})


def belied(sent: Mapping[str, Any], declaration: Declaration | None) -> tuple[str, str] | None:
    """Refuse a call that belies what its workflow declares of the tool: so it would leave the ledger."""
    if sent["kind"] != "effect_intended" or declaration is None:
        return None
    body = sent["body"]
    tool = declaration.tools.get(body["tool"])
    effect_class, destination = ("unknown", None) if tool is None else (tool.effect_class, tool.destination)
    if body["effect_class"] != effect_class:
        return ("body.effect_class", "declared")
    return None if body["destination"] == destination else ("body.destination", "declared")


def entitlement_problem(recorder: Recorder, run: Run, sent: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return field and rule of what this writer may not say of this run, or None."""
    kind = sent["kind"]
    if run.recorder_id != recorder.pk and kind not in _FROM_ANYBODY:
        return ("run", "foreign_writer")
    if run.parent_id is not None and not hasattr(run, "redemption"):
        return ("run", "not_resumed")
    if kind == "run_started" and run.parent_id is not None:
        return ("kind", "branch_starts_by_permit")
    if kind in {"started", "restored"}:
        return _resume_problem(run, sent["body"])
    if kind == "outcome" and sent["body"]["issuer"]["type"] not in _OWN_WORD:
        # What a loop's own process says of a destination is a claim, whatever it calls itself.
        return ("body.issuer.type", "not_entitled")
    return None


def _resume_problem(run: Run, body: Mapping[str, Any]) -> tuple[str, str] | None:
    if run.parent_id is None:
        return ("kind", "branches_only")
    if run.redemption.permit.uid != body["permit"] or run.redemption.attempt != body["attempt"]:
        return ("body.attempt", "not_redeemed")
    return None
