"""Makes approval requests in a served database, as a program of its own, and says which there are."""

import json
import sys
from typing import Any

import django

django.setup()

from branches.commands.decide import revoke_authority  # noqa: E402
from branches.commands.request_approval import request_approval, withdraw_request  # noqa: E402
from branches.models import ApprovalRequest, Person, Run  # noqa: E402
from branches.queries.clock import now  # noqa: E402
from tests.builders import failed_run  # noqa: E402
from tests.hostile import scenarios  # noqa: E402


def made() -> dict[str, Any]:
    """Three families: one whose branch is looked at and asks too, one that asks, one that took it back."""
    scenarios.fakes()
    world = scenarios.new_world()
    branches = [scenarios.settled(world, failed_run(world)) for _ in range(3)]
    own, other, back = (request_approval(person=world.ada, branch=each) for each in branches)
    withdraw_request(person=world.ada, request=back)
    return {
        "token": world.token,
        "branch": branches[0].uid,
        "root": failed_run(world).uid,
        "grace": world.grace.uid,
        "made": {"own": own.uid, "other": other.uid, "back": back.uid},
        "at": now().isoformat(),
    }


def approved(grace: str, request: str) -> dict[str, Any]:
    """Have a request approved."""
    scenarios.fakes()
    row = ApprovalRequest.objects.get(uid=request)
    scenarios.decide.decide(
        person=Person.objects.get(uid=grace),
        request=row,
        word="approved",
        reason="reviewed_delta",
        digest=row.subject_digest,
    )
    return {"at": now().isoformat()}


def revoked(grace: str, request: str) -> dict[str, Any]:
    """Take the authority over a request's branch back."""
    scenarios.fakes()
    branch = Run.objects.get(requests__uid=request)
    revoke_authority(person=Person.objects.get(uid=grace), branch=branch, reason="too_risky")
    return {"at": now().isoformat()}


if __name__ == "__main__":
    step, *arguments = sys.argv[1:]
    print(json.dumps({"made": made, "approved": approved, "revoked": revoked}[step](*arguments)))
