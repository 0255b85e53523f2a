"""Which workspace somebody looks at: the one they chose, or the one they joined first."""

from typing import Any, Final

from branches.queries.lookups import NotHere, WorkspaceRow, workspaces_of

_KEY: Final = "workspace"


def workspaces_here(request: Any) -> list[WorkspaceRow]:
    """Return the workspaces of whoever is signed in, looked up once a request."""
    found: list[WorkspaceRow] | None = getattr(request, "workspaces_here", None)
    if found is None:
        found = request.workspaces_here = workspaces_of(request.user)
    return found


def workspace_now(request: Any) -> WorkspaceRow | None:
    """Return the workspace that is looked at; a choice that is no longer theirs does not count."""
    mine, chosen = workspaces_here(request), request.session.get(_KEY)
    return next((each for each in mine if each.uid == chosen), mine[0] if mine else None)


def choose_workspace(request: Any, uid: str) -> WorkspaceRow:
    """Look at another workspace from now on. Raises NotHere for one that is not theirs."""
    for each in workspaces_here(request):
        if each.uid == uid:
            request.session[_KEY] = uid
            return each
    raise NotHere
