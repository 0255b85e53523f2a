"""Resume permits as they are handed out."""

import json
from typing import Any

from branches.models import ResumePermit


def envelope_of(permit: ResumePermit) -> dict[str, Any]:
    """Return the signed envelope."""
    envelope: dict[str, Any] = json.loads(permit.envelope)
    return envelope
