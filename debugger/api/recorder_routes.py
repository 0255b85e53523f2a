"""What a recorder calls: pairing, work, permits, leases and content."""

import base64
import time
from typing import Any, Final

from django.http import HttpRequest
from ninja import Router, Status

from branches.commands.admit import note_presence, pair_recorder
from branches.commands.continue_recorder import continue_recorder
from branches.commands.redeem_permit import decline_permit, redeem_permit
from branches.commands.refusal import Refused
from branches.commands.renew_lease import renew_lease
from branches.commands.report_conformance import report_conformance
from branches.evidence import boxes
from branches.queries.continuing import sealed_challenge
from branches.queries.lookups import (
    branch_named,
    branches_to_stop,
    permit_named,
    recorder_named,
    sealed_edits,
    waiting_permits,
)
from branches.queries.permits import envelope_of
from branches.queries.secrets import signer, workspace_key
from debugger.api import forms
from debugger.api.errors import Problem
from debugger.api.tokens import TokenAuth, machine_of
from debugger.exchange import ContentAnswer, exchange

router = Router(tags=["recorder"])
_POLL_S: Final = 0.5
_MAX_WAIT_S: Final = 25.0


@router.post("/recorders/pair", auth=TokenAuth("redeem"), response={200: forms.Paired, 201: forms.Paired})
def pair(request: HttpRequest, body: forms.Pairing) -> Status[Any]:
    """Pair a recorder with the workspace of its token; the same key again gives the same recorder."""
    machine = machine_of(request)
    runtime = f"{body.runtime.name} {body.runtime.version}"
    recorder, is_new = pair_recorder(
        token=machine.token, name=body.name, runtime=runtime, box_key=body.box_key
    )
    key = workspace_key(machine.workspace)
    sealed = boxes.seal(bytes.fromhex(recorder.box_key), key.secret)
    return Status(
        201 if is_new else 200,
        {
            "recorder": recorder.uid,
            "workspace": machine.workspace.uid,
            "server_key": {
                "key_id": signer().key_id,
                "public": base64.b64encode(signer().public_bytes).decode(),
            },
            "hmac_key": {"key_id": key.key_id, "sealed": base64.b64encode(sealed).decode()},
        },
    )


@router.post("/recorders/challenge", auth=TokenAuth("redeem"), response=forms.Challenge)
def challenge(request: HttpRequest, body: forms.Continuing) -> dict[str, str]:
    """Return what a recorder has to open to go on under this token: its runs and permits stay its own."""
    machine = machine_of(request)
    recorder = recorder_named(machine.workspace, body.recorder)
    return {"sealed": base64.b64encode(sealed_challenge(recorder, machine.token)).decode()}


@router.post("/recorders/continue", auth=TokenAuth("redeem"), response=forms.DoneOut)
def go_on(request: HttpRequest, body: forms.Proof) -> dict[str, bool]:
    """Let a recorder go on under this token, for it opened the challenge."""
    machine = machine_of(request)
    try:
        proof = base64.b64decode(body.proof, validate=True)
    except ValueError:
        raise Refused(rule="base64", field="proof") from None
    recorder = recorder_named(machine.workspace, body.recorder)
    continue_recorder(recorder=recorder, token=machine.token, proof=proof)
    return {"ok": True}


@router.post("/recorders/conformance", auth=TokenAuth("redeem"), response=forms.DoneOut)
def conformance(request: HttpRequest, body: forms.ConformanceIn) -> dict[str, bool]:
    """Take a recorder's own word on which promises about permits it kept in the conformance suite."""
    report_conformance(recorder=machine_of(request).paired(), **body.dict())
    return {"ok": True}


@router.get("/recorder/work", auth=TokenAuth("redeem"), response=forms.WorkOut)
def work(request: HttpRequest, wait: forms.Seconds = 0.0) -> dict[str, Any]:
    """Wait up to `wait` seconds (25 at most) for permits, content requests and branches to stop."""
    recorder = machine_of(request).paired()
    note_presence(recorder=recorder)
    deadline = time.monotonic() + min(max(wait, 0.0), _MAX_WAIT_S)
    while True:
        permits = [envelope_of(permit) for permit in waiting_permits(recorder)]
        stop = branches_to_stop(recorder)
        remaining = deadline - time.monotonic()
        pause = 0.0 if permits or stop else min(_POLL_S, max(0.0, remaining))
        content = exchange().take(recorder.uid, pause)
        if permits or stop or content or remaining <= 0:
            return {"permits": permits, "content": content, "stop": stop}


@router.get("/permits/{permit}/edits", auth=TokenAuth("redeem"), response=forms.EditsOut)
def edits(request: HttpRequest, permit: str) -> dict[str, Any]:
    """Return the branch's edits, each sealed to this recorder's key."""
    recorder = machine_of(request).paired()
    row = permit_named(recorder, permit)
    if row.recorder_id != recorder.pk:
        raise Problem(404, "not_found")
    return {
        "edits": [
            {
                "edit": edit.digest,
                "edit_class": edit.edit_class,
                "target": edit.target,
                "state_key": edit.state_key,
                "sealed": base64.b64encode(sealed).decode(),
            }
            for edit, sealed in sealed_edits(row)
        ]
    }


@router.post("/permits/{permit}/redeem", auth=TokenAuth("redeem"), response=forms.RedeemedOut)
def redeem(request: HttpRequest, permit: str, body: forms.RedeemIn) -> Any:
    """Redeem a permit once; the same attempt may ask again and hears the same."""
    recorder = machine_of(request).paired()
    if body.recorder != recorder.uid:
        raise Problem(409, "wrong_recorder", "recorder")
    return redeem_permit(recorder=recorder, permit=permit_named(recorder, permit), attempt=body.attempt)


@router.post("/permits/{permit}/decline", auth=TokenAuth("redeem"), response=forms.DoneOut)
def decline(request: HttpRequest, permit: str, body: forms.DeclineIn) -> dict[str, bool]:
    """Say that what was loaded is not what was pinned: the permit ends unused."""
    recorder = machine_of(request).paired()
    decline_permit(recorder=recorder, permit=permit_named(recorder, permit), rule=body.rule)
    return {"ok": True}


@router.post("/branches/{branch}/lease", auth=TokenAuth("redeem"), response=forms.LeaseOut)
def lease(request: HttpRequest, branch: str, body: forms.LeaseIn) -> dict[str, Any]:
    """Renew the branch's lease before a step, or hear why it must stop."""
    machine = machine_of(request)
    rule = renew_lease(
        recorder=machine.paired(), branch=branch_named(machine.workspace, branch), attempt=body.attempt
    )
    return {"go": rule is None, "rule": rule}


@router.post("/content/{content_request}", auth=TokenAuth("redeem"), response=forms.DoneOut)
def content(request: HttpRequest, content_request: str, body: forms.ContentIn) -> dict[str, bool]:
    """Answer a content request with bytes sealed to the asking page's key; nothing of it is kept."""
    recorder = machine_of(request).paired()
    answer = ContentAnswer(sealed=body.sealed, problem=body.problem)
    if not exchange().answer(recorder.uid, content_request, answer):
        raise Problem(404, "not_found")
    return {"ok": True}
