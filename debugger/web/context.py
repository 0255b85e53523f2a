"""What every page's frame shows: who is signed in, with which roles, and what waits for them."""

from typing import Any

from django.http import HttpRequest

from branches.queries.authority import roles_of
from branches.queries.inbox import waiting_for
from debugger.web.demo import PEOPLE, is_demo
from debugger.web.second_factor import must_set_up
from debugger.web.workspaces import workspace_now, workspaces_here


def page_frame(request: HttpRequest) -> dict[str, Any]:
    """Return the frame's values; nothing for a stranger."""
    demo = {"demo": is_demo(request), "demo_people": PEOPLE.items()}
    person = getattr(request, "user", None)
    if person is None or not person.is_authenticated:
        return demo
    # For the pages of accounts and of refusals nobody has looked these up yet.
    workspace = getattr(request, "workspace", None) or workspace_now(request)
    roles: frozenset[str] | None = getattr(request, "roles", None)
    if roles is None:
        roles = roles_of(person, workspace) if workspace is not None else frozenset()
    if workspace is None or not roles:
        return demo
    if must_set_up(request, person, roles):
        return {**demo, "lacks_second_factor": True}
    return {
        **demo,
        "workspaces": workspaces_here(request),
        "workspace": workspace,
        "roles": sorted(roles),
        "waiting": waiting_for(person, workspace) if "approver" in roles else 0,
    }
