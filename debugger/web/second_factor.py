"""A second factor: who has one, and who must set one up before they see anything."""

from collections.abc import Iterable
from typing import Final

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.http import HttpRequest

from branches.queries.lookups import PersonRow
from debugger.web.demo import PEOPLE, is_demo

FACTORS: Final = ("totp", "webauthn")
"""Recovery codes are a way back in, not a factor of their own."""
WANTED_FOR: Final = frozenset({"approver", "destination_owner", "policy_admin"})


def must_set_up(request: HttpRequest, person: PersonRow, roles: Iterable[str]) -> bool:
    """Return whether somebody with these roles lacks the second factor that they must have."""
    if not settings.BRANCHGATE_REQUIRE_MFA or WANTED_FOR.isdisjoint(roles):
        return False
    if is_one_click(request, person):
        return False
    return person.pk not in with_second_factor([person.pk])


def with_second_factor(people: Iterable[int]) -> frozenset[int]:
    """Return the primary keys of those who have a second factor."""
    rows = Authenticator.objects.filter(user_id__in=list(people), type__in=FACTORS)
    return frozenset(rows.values_list("user_id", flat=True))


def is_one_click(request: HttpRequest, person: PersonRow) -> bool:
    """Return whether this is one of the demo's people, who sign in with one click on the loopback."""
    return person.get_username() in PEOPLE and is_demo(request) and not person.has_usable_password()
