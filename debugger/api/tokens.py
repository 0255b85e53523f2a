"""Who a machine is: a bearer token of one workspace, with the verbs it may use."""

from dataclasses import dataclass

from django.http import HttpRequest
from ninja.security import HttpBearer

from branches.commands.admit import token_digest
from branches.commands.give_token import note_token_use
from branches.queries.lookups import ApiTokenRow, RecorderRow, WorkspaceRow, recorder_of, usable_token
from debugger.api.errors import Problem


@dataclass(frozen=True, slots=True)
class Machine:
    """An authenticated token with its workspace and the recorder that paired with it, if any."""

    token: ApiTokenRow
    workspace: WorkspaceRow
    recorder: RecorderRow | None

    def paired(self) -> RecorderRow:
        """Return the recorder; raises Problem 409 for a token nobody paired with."""
        if self.recorder is None:
            raise Problem(409, "not_paired")
        return self.recorder


def machine_of(request: HttpRequest) -> Machine:
    """Return who is asking; routes are only reached with a token."""
    machine = getattr(request, "auth", None)
    assert isinstance(machine, Machine)  # noqa: S101 - every route has an auth
    return machine


class TokenAuth(HttpBearer):
    """Accepts a usable token that carries the scope."""

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def authenticate(self, request: HttpRequest, token: str) -> Machine | None:
        row = usable_token(token_digest(token))
        if row is None or self.scope not in row.scopes:
            return None
        note_token_use(token=row)
        return Machine(row, row.workspace, recorder_of(row))
