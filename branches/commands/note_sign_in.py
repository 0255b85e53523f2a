"""Writes that somebody signed in on the chain of every workspace they belong to."""

from django.db import transaction

from branches.commands.append_receipt import Actor
from branches.commands.append_to_workspace import append_to_workspace
from branches.evidence.kinds.workspace import SIGN_IN_METHODS
from branches.models import Person
from branches.queries.lookups import workspaces_of


def note_sign_in(*, person: Person, method: str, second_factor: bool) -> None:
    """Record a sign-in by one of the methods that receipts know; nothing for somebody without a role."""
    if method not in SIGN_IN_METHODS:
        raise ValueError("method")
    with transaction.atomic():
        # In one order for everybody: two people of the same two workspaces may sign in at once.
        for workspace in sorted(workspaces_of(person), key=lambda each: each.pk):
            append_to_workspace(
                workspace=workspace,
                kind="signed_in",
                body={"person": person.uid, "method": method, "second_factor": second_factor},
                actor=Actor.person(person),
                subject=person.uid,
            )
