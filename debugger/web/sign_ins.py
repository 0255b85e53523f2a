"""Hears of every sign-in and has it written on the chains of the person's workspaces."""

from typing import Any, Final

from allauth.account.internal.flows.login import get_authentication_records
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from branches.commands.note_refusal import note_failed_sign_in
from branches.commands.note_sign_in import note_sign_in
from branches.queries.lookups import PersonRow, person_called

_DOORS: Final = {"password": "password", "socialaccount": "provider", "one_click": "one_click"}


def way_in(records: list[dict[str, Any]]) -> tuple[str, bool] | None:
    """Return how somebody signed in and whether a second factor was used, from the newest records."""
    second, recovered = False, False
    for record in reversed(records):
        door = _DOORS.get(record["method"])
        if door is not None:
            return ("recovery_code" if recovered else door), second
        if record["method"] == "mfa":
            if record.get("passwordless"):
                return "passkey", True  # the key itself asked for a finger or a code
            second, recovered = True, recovered or record.get("type") == "recovery_codes"
    return None


@receiver(user_logged_in, dispatch_uid="branchgate.note_sign_in")
def on_sign_in(request: HttpRequest, user: PersonRow, **_more: Any) -> None:
    """Write the sign-in; a session that was opened by no door of ours is nobody's sign-in."""
    found = way_in(get_authentication_records(request, user))
    if found is not None:
        method, second_factor = found
        note_sign_in(person=user, method=method, second_factor=second_factor)


@receiver(user_login_failed, dispatch_uid="branchgate.note_failed_sign_in")
def on_failed_sign_in(credentials: dict[str, Any], **_more: Any) -> None:
    """Write that somebody failed to sign in as one of ours; of a name that nobody has nothing is kept."""
    person = person_called(str(credentials.get("username") or credentials.get("email") or ""))
    if person is not None:
        note_failed_sign_in(person=person)
