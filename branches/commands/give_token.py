"""A policy admin lets a machine in, or ends its token; and when a token was last used."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from django.db import transaction

from branches.commands.admit import end_token, issue_token
from branches.commands.append_receipt import Actor
from branches.commands.propose_change import require_admin
from branches.commands.refusal import Refused
from branches.models import ApiToken, Person, TokenUse, Workspace
from branches.queries.clock import now

LIVES: Final = (30, 90, 180, 365)
"""For so many days a token may be issued."""
NOTED_EVERY: Final = timedelta(minutes=1)
_MOST_LETTERS: Final = 64


def give_token(
    *, person: Person, workspace: Workspace, name: str, scopes: Iterable[str], days: int | None
) -> tuple[ApiToken, str]:
    """Return a new token and its secret, which is shown this once. Raises Refused."""
    if days not in LIVES:
        raise Refused(rule="enum", field="days")
    if not name.strip():
        raise Refused(rule="required", field="name")
    if len(name) > _MOST_LETTERS or not name.isprintable():
        raise Refused(rule=f"max_bytes:{_MOST_LETTERS}", field="name")
    with transaction.atomic():
        require_admin(person, workspace)
        return issue_token(
            workspace=workspace,
            name=name.strip(),
            scopes=scopes,
            lives=timedelta(days=days),
            actor=Actor.person(person),
        )


def take_token(*, person: Person, token: ApiToken) -> None:
    """Accept a token no longer, from the next request on. Raises Refused."""
    with transaction.atomic():
        require_admin(person, token.workspace)
        end_token(token=token, actor=Actor.person(person))


def note_token_use(*, token: ApiToken) -> None:
    """Remember that a token was used, at most once a minute; not part of the record."""
    at, use = now(), TokenUse.objects.filter(token=token).first()
    if use is None or at - use.used_at >= NOTED_EVERY:
        TokenUse.objects.update_or_create(token=token, defaults={"used_at": at})
