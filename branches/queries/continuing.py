"""What a recorder has to open to go on under another token: sealed to its own key, kept nowhere."""

import hmac
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from branches.evidence import boxes, keys
from branches.models import ApiToken, Recorder
from branches.queries.clock import now

LASTS: Final = timedelta(hours=1)
"""A challenge can be answered for so long at least, and for twice that at most."""


def sealed_challenge(recorder: Recorder, token: ApiToken) -> bytes:
    """Return the challenge of a recorder under a token, which only the recorder's key opens."""
    return boxes.seal(bytes.fromhex(recorder.box_key), next(_challenges(recorder, token)))


def is_answer(recorder: Recorder, token: ApiToken, answer: bytes) -> bool:
    """Return whether these bytes are what the challenge held."""
    return any(hmac.compare_digest(each, answer) for each in _challenges(recorder, token))


def _challenges(recorder: Recorder, token: ApiToken) -> Iterator[bytes]:
    at = now()
    for moment in (at, at - LASTS):
        purpose = f"continue {recorder.uid} {token.uid} {_period(moment)}"
        yield keys.derive_key(settings.BRANCHGATE_MASTER_KEY, purpose)


def _period(moment: datetime) -> int:
    return int(moment.timestamp() // LASTS.total_seconds())
