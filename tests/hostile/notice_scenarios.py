"""What the races about notices do; each is one scenario on the arena's database, as `scenarios` has them."""

from collections import Counter
from typing import Any

from branches.commands.admit import grant_role
from branches.commands.deliver_notices import deliver_notices
from branches.commands.request_approval import request_approval
from branches.models import DeliveryState, NoticeDelivery, NoticeKind, RequestDelivery, Role
from tests.adapters.hooks import receiver
from tests.branches.noticed import hooked, place
from tests.builders import World, failed_run
from tests.hostile.racing import race


def deliver_at_once(world: World, processes: int) -> dict[str, Any]:
    """Deliver the same notices from many processes; the receiver counts what arrives."""
    from tests.hostile.scenarios import settled

    grant_role(person=world.rosa, workspace=world.workspace, role=Role.POLICY_ADMIN)
    with receiver() as there:
        place(notifier="webhook", url=there.url, allow="loopback")
        for _ in range(2):
            hooked(world, NoticeKind.REQUESTED)
        requests = [
            request_approval(person=world.ada, branch=settled(world, failed_run(world))) for _ in range(3)
        ]
        words = race([lambda: str(len(deliver_notices())) for _ in range(processes)])
        arrived = Counter(came.headers["webhook-id"] for came in there.came)
    mine = NoticeDelivery.objects.filter(notice__workspace=world.workspace)
    return {
        "words": words,
        "arrived": sorted(arrived.values()),
        "delivered": mine.filter(state=DeliveryState.DELIVERED, tries=1).count(),
        "clocks": RequestDelivery.objects.filter(request__in=requests, via="sent").count(),
    }
