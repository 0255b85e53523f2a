"""Signed messages that a destination pushes, by the Standard Webhooks convention (symmetric, version 1).

The signature is HMAC-SHA-256 over `id.timestamp.body` under the secret's bytes; of several signatures in the
header, as while a secret is changed, one has to hold.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

TOLERANCE: Final = timedelta(seconds=300)
_PREFIX: Final = "whsec_"
_VERSION: Final = "v1"
_MOST_SIGNATURES: Final = 16
_ID: Final = re.compile(
    r"[\x21-\x2d\x2f-\x7e]{1,128}"
)  # what may stand before a full stop, and itself has none
_SECONDS: Final = re.compile(r"[0-9]{1,11}")  # until the year 5138
_SHORTEST_SECRET: Final = 24


class WebhookInvalid(ValueError):
    """A message that cannot be believed; `rule` is a closed word."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


def secret_of(text: str) -> bytes:
    """Return the bytes of a secret (`whsec_` and base64). Raises WebhookInvalid."""
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise WebhookInvalid("secret_form") from None
    if len(secret) < _SHORTEST_SECRET:
        raise WebhookInvalid("secret_short")
    return secret


def sign(secret: bytes, message: str, at: datetime, body: bytes) -> str:
    """Return the value of the signature header for one message."""
    signed = f"{message}.{int(at.timestamp())}.".encode() + body
    return f"{_VERSION},{base64.b64encode(hmac.digest(secret, signed, hashlib.sha256)).decode()}"


def verify(headers: Mapping[str, str], body: bytes, secret: bytes, now: datetime) -> str:
    """Return the message's id. Raises WebhookInvalid.

    `headers` by lower-case name; needed are `webhook-id`, `webhook-timestamp` (seconds) and
    `webhook-signature`.
    """
    message, seconds = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not _ID.fullmatch(message):
        raise WebhookInvalid("webhook_id")
    if not _SECONDS.fullmatch(seconds):
        raise WebhookInvalid("webhook_timestamp")
    at = datetime.fromtimestamp(0, UTC) + timedelta(seconds=int(seconds))
    expected = sign(secret, message, at, body)
    given = headers.get("webhook-signature", "").split(" ")[:_MOST_SIGNATURES]
    if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in given):
        raise WebhookInvalid("webhook_signature")
    # After the signature: to whoever cannot sign nothing is said of our clock.
    if abs(now - at) > TOLERANCE:
        raise WebhookInvalid("webhook_too_old" if at < now else "webhook_too_early")
    return message
