"""The invitation that somebody is about to accept, while they are away at the provider."""

from typing import Final

from django.http import HttpRequest

from branches.commands.invite_person import invitation_digest, require_open
from branches.commands.refusal import Refused
from branches.queries.lookups import NotHere, invitation_by

_KEY: Final = "invitation"


def remember_invitation(request: HttpRequest, secret: str) -> None:
    """Keep the digest of the link in the session, which the database holds, so that the answer finds it."""
    request.session[_KEY] = invitation_digest(secret)


def forget_invitation(request: HttpRequest) -> None:
    """Forget it: it was accepted, or somebody else's."""
    request.session.pop(_KEY, None)


def is_invited(request: HttpRequest) -> bool:
    """Return whether this session came by an invitation that is still open."""
    digest = request.session.get(_KEY)
    if not isinstance(digest, str):
        return False
    try:
        require_open(invitation_by(digest))
    except (Refused, NotHere):
        return False
    return True
