"""The governance receipt of a branch: its six gates with the evidence behind each, signed."""

from typing import Any

from branches.evidence.governance import build_statement, sign_governance
from branches.evidence.signing import envelope_bytes
from branches.models import ResumePermit, Run
from branches.queries.branch_facts import BranchView, branch_view
from branches.queries.chains import head, latest, links
from branches.queries.clock import stamp
from branches.queries.secrets import signer


def governance_receipt(branch: Run) -> bytes:
    """Return the signed envelope in its one file form."""
    view = branch_view(branch)
    seq, digest = head(branch.pk)
    statement = build_statement(
        branch=branch.uid,
        generated_at=stamp(view.at),
        verdict=view.verdict.as_json(),
        facts=view.facts.as_json(),
        evidence=_evidence(view),
        policy=view.asked.policy.digest,
        lineage={
            "parent": view.facts.parent_id,
            "checkpoint": view.fork.checkpoint,
            "seq": view.fork.seq,
            "digest": view.fork.digest,
        },
        permit=_permit(view),
        approvals=_approvals(view),
        chain={"count": seq, "head": digest},
    )
    return envelope_bytes(sign_governance(statement, signer()))


def _evidence(view: BranchView) -> dict[str, list[str]]:
    """Return for each gate the digests of the receipts it rests on."""
    own = links(
        [view.branch.pk],
        (
            "state_captured",
            "state_measured",
            "drift_acknowledged",
            "restored",
            "effect_asked",
            "effect_reconciled",
            "ledger_attested",
            "decided",
            "configuration_pinned",
            "outcome_checked",
        ),
    )
    by_gate: dict[str, list[str]] = {
        "lineage": [view.fork.digest],
        "state": [view.checkpoint.digest] if view.checkpoint else [],
        "effects": _closings(view),
        "authority": [],
        "configuration": [],
        "outcome": [],
    }
    for item in own:
        by_gate[_GATE_OF[item.kind]].append(item.digest)
    if view.branch.outcome is not None:
        # What counts as done was declared at the fork: by the branch's own first receipt.
        by_gate["outcome"] += [item.digest for item in links([view.branch.pk], ("forked",))]
    if not by_gate["authority"] and view.declaration is not None:
        # Where no approval is required, that follows from what the workflow declared.
        by_gate["authority"].append(view.declaration.digest)
    return by_gate


_GATE_OF = {
    "state_captured": "state",
    "state_measured": "state",
    "drift_acknowledged": "state",
    "restored": "state",
    "effect_asked": "effects",
    "effect_reconciled": "effects",
    "ledger_attested": "effects",
    "decided": "authority",
    "configuration_pinned": "configuration",
    "outcome_checked": "outcome",
}


def _closings(view: BranchView) -> list[str]:
    """Return the receipts that show the list of effects to be complete."""
    found = (latest(run_id, "recording_closed") for run_id in view.family.after(view.branch))
    return [item.digest for item in found if item is not None]


def _permit(view: BranchView) -> dict[str, Any] | None:
    permit = (
        ResumePermit.objects.filter(branch=view.branch).select_related("recorder").order_by("-id").first()
    )
    if permit is None:
        return None
    redeemed = view.redemption if view.redemption and view.redemption.permit_id == permit.pk else None
    return {
        "permit": permit.uid,
        "recorder": permit.recorder.uid,
        "subject_digest": permit.subject_digest,
        "attempt": redeemed.attempt if redeemed else None,
        "redeemed_at": stamp(redeemed.at) if redeemed else None,
    }


def _approvals(view: BranchView) -> list[dict[str, Any]]:
    request = view.authority.request
    if request is None:
        return []
    decided = links([view.branch.pk], ("decided",))
    return [
        {
            "decision": item.body["decision"],
            "person": item.actor["id"],
            "verdict": item.body["verdict"],
            "subject_digest": item.body["subject_digest"],
            "at": stamp(item.at),
        }
        for item in decided
        if item.body["request"] == request.uid
    ]
