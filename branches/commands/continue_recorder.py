"""Lets a recorder go on under another token of its workspace, once it proved that it holds its own key."""

from django.db import transaction

from branches.commands.append_receipt import Actor, lock_names
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.models import ApiToken, Recorder, RecorderToken
from branches.queries.clock import now
from branches.queries.continuing import is_answer
from branches.queries.lookups import recorder_of


def continue_recorder(*, recorder: Recorder, token: ApiToken, proof: bytes) -> None:
    """Make a token that of a recorder from now on; safe to repeat. Raises Refused for a wrong proof.

    The runs that it began stay its own, and so do the permits that wait for it. By the name of its token a
    workflow entitles a writer, so the token bears the name of the one that it paired with.
    """
    if token.name != recorder.token.name:
        raise Refused(rule="token_name", field="token")
    if not is_answer(recorder, token, proof):
        raise Refused(rule="proof", field="proof")
    with transaction.atomic():
        lock_names([f"token {token.uid}"])
        known = recorder_of(token)
        if known is not None and known.pk == recorder.pk:
            return
        RecorderToken.objects.create(recorder=recorder, token=token, at=now())
        append_to_workspace(
            workspace=token.workspace,
            kind="recorder_continued",
            body={"recorder": recorder.uid, "token": token.uid},
            actor=Actor("recorder", recorder.uid),
            subject=recorder.uid,
        )
