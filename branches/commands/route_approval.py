"""Names whom an unrouted approval waits for, and until when: a loop that stopped for it says so no more."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from branches.commands.announce_route import announce_route
from branches.commands.append_receipt import Actor, append_receipt, lock_families
from branches.commands.guards import require_role
from branches.commands.owners import require_owner
from branches.commands.refusal import Refused
from branches.evidence.domains import REF
from branches.models import Person, Role, Run
from branches.queries.chains import links
from branches.queries.clock import now, stamp
from branches.queries.loops import gone_on
from branches.queries.secrets import workspace_key


def route_approval(
    *, person: Person, run: Run, stopped: str, owner: str, deadline: datetime, resume_token: str = ""
) -> None:
    """Record who owns the approval that a loop stopped for; `stopped` is the stop receipt's event id.

    The token is what the runtime goes on with; only its HMAC is kept. Raises Refused.
    """
    require_role(person, run, Role.ENGINEER)
    if deadline <= now():
        raise Refused(rule="in_the_future", field="deadline")
    with transaction.atomic():
        lock_families([run.family_id])
        found = next(iter(links([run.pk], ("stopped",), where=Q(event_id=stopped))), None)
        if found is None:
            raise Refused(rule="unknown", field="stopped")
        if found.body["stop_cause"] != "approval_requested":
            raise Refused(rule="waits_for_no_approval", field="stopped")
        if found.event_id in gone_on(list(links([run.pk], ("stopped",)))):
            raise Refused(rule="already_answered", field="stopped")
        own = found.body["approval"]
        if own is not None and all(own.values()):
            raise Refused(rule="routed_by_itself", field="stopped")
        token = resume_token.strip()
        named = require_owner(run, owner)
        receipt = append_receipt(
            run=run,
            kind="approval_routed",
            body={
                "stopped": stopped,
                "owner": named,
                "deadline": stamp(deadline),
                "resume_token": workspace_key(run.workspace).digest(REF, token) if token else None,
            },
            actor=Actor.person(person),
            subject=stopped,
        )
        announce_route(run=run, subject=stopped, owner=named, receipt=receipt)
