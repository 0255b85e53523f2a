"""Notices by webhook: one signed POST by the Standard Webhooks convention, to a registered address only."""

from typing import Final

from branches.evidence.webhooks import sign
from branches.ports import NoticeMessage, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable, post

_TAKEN: Final = range(200, 300)


class WebhookNotifier:
    """Options: `url`, and `allow` (address ranges) where it is in a private network."""

    def deliver(self, target: Target, message: NoticeMessage) -> str | None:
        headers = {
            "Content-Type": "application/json",
            "webhook-id": message.message,
            "webhook-timestamp": str(int(message.at.timestamp())),
            "webhook-signature": sign(message.secret, message.message, message.at, message.body),
        }
        try:
            page = post(
                target.text("url"),
                message.body,
                allowed=Allowed.of(target.options.get("allow")),
                headers=headers,
            )
        except (TargetUnfit, KeyError, TypeError, ValueError):
            return "target_unfit"
        except Unreachable as error:
            return error.problem
        return None if page.status in _TAKEN else "not_taken"
