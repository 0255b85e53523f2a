"""The policy that counts in a workspace at a moment: the newest adopted one in effect, or the default."""

import json
from datetime import datetime
from functools import lru_cache

from django.db.models import Q

from branches.models import PolicyChange, PolicySort, Workspace
from branches.queries.clock import now
from branches.queries.policy_text import default_policy
from branches.rules.policy import Policy, read_policy


def policy_of(workspace: Workspace, at: datetime | None = None) -> Policy:
    """Return the policy in effect."""
    row = policy_row(workspace, at or now())
    return default_policy() if row is None else _read(row.document, row.digest)


def policy_row(workspace: Workspace, at: datetime) -> PolicyChange | None:
    """Return the adopted change that is in effect, or None where the default counts."""
    adopted = PolicyChange.objects.filter(workspace=workspace, sort=PolicySort.POLICY, end__word="adopted")
    # One without delay counts whatever the clock says: a clock that was set back brings no old policy back.
    adopted = adopted.filter(Q(end__effective_at__lte=at) | Q(delay_s=0))
    return adopted.order_by("-end__effective_at", "-id").first()


@lru_cache(maxsize=256)
def _read(document: str, digest: str) -> Policy:
    return read_policy(json.loads(document), digest)
