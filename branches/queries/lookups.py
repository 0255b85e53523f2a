"""Rows by their public ids, always within one workspace: what is elsewhere does not exist."""

from collections.abc import Collection
from datetime import timedelta

from branches.evidence.ids import is_id
from branches.models import (
    ApiToken,
    ApprovalRequest,
    Edit,
    Group,
    Invitation,
    Job,
    Person,
    PolicyChange,
    Presence,
    Recorder,
    RecorderToken,
    Redemption,
    ResumePermit,
    Revocation,
    RoleGrant,
    Run,
    SealedEdit,
    TokenEnd,
    Workflow,
    Workspace,
)
from branches.queries.clock import now
from branches.queries.declarations import declaration_of
from branches.queries.standings import roster_of

# What pages and routes may call these rows; they never import the models themselves.
type ApiTokenRow = ApiToken
type RecorderRow = Recorder
type WorkspaceRow = Workspace
type RunRow = Run
type PersonRow = Person
type RequestRow = ApprovalRequest
type JobRow = Job
type InvitationRow = Invitation

ONLINE_FOR = timedelta(seconds=45)


class NotHere(LookupError):
    """There is no such thing in this workspace."""


def is_anybody_admitted() -> bool:
    """Return whether there is somebody who could sign in."""
    return Person.objects.exists()


def workspace_of(person: Person) -> Workspace | None:
    """Return the workspace a person holds a role in now (the first, where several)."""
    return next(iter(workspaces_of(person)), None)


def person_called(username: str) -> Person | None:
    """Return who signs in by a name, or None; no name holds a NUL, and no database takes one."""
    return None if "\0" in username else Person.objects.filter(username=username).first()


def workspaces_of(person: Person) -> list[Workspace]:
    """Return the workspaces in which a person holds a role now, the longest joined first."""
    grants = RoleGrant.objects.filter(person=person).select_related("workspace").order_by("id")
    at = now()
    standing = {(grant.workspace_id, grant.role, grant.scope): grant for grant in grants}
    held = [each for each in standing.values() if each.held and (each.until is None or at < each.until)]
    return list({grant.workspace_id: grant.workspace for grant in held}.values())


def _look_at(uid: str) -> None:
    """Say that there is nothing of a name that no id has; PostgreSQL would choke on some of them."""
    if not is_id(uid):
        raise NotHere


def workspace_named(uid: str) -> Workspace:
    """Return a workspace by its id; raises NotHere."""
    _look_at(uid)
    found = Workspace.objects.filter(uid=uid).first()
    if found is None:
        raise NotHere(uid)
    return found


def workspace_names() -> set[str]:
    """Return the names of all workspaces."""
    return set(Workspace.objects.values_list("name", flat=True))


def run_named(workspace: Workspace, uid: str) -> Run:
    """Return a run or branch; raises NotHere."""
    _look_at(uid)
    run = (
        Run.objects.filter(uid=uid, workspace=workspace)
        .select_related("workspace", "workflow", "recorder", "root", "parent")
        .first()
    )
    if run is None:
        raise NotHere(uid)
    return run


def branch_named(workspace: Workspace, uid: str) -> Run:
    """Return a branch; raises NotHere for a root run too."""
    run = run_named(workspace, uid)
    if run.parent_id is None:
        raise NotHere(uid)
    return run


def request_named(workspace: Workspace, uid: str) -> ApprovalRequest:
    """Return an approval request; raises NotHere."""
    _look_at(uid)
    request = (
        ApprovalRequest.objects.filter(uid=uid, branch__workspace=workspace)
        .select_related("branch__workspace", "branch__workflow", "branch__root", "requester")
        .first()
    )
    if request is None:
        raise NotHere(uid)
    return request


def change_named(workspace: Workspace, uid: str) -> PolicyChange:
    """Return a change of class CP; raises NotHere."""
    _look_at(uid)
    change = PolicyChange.objects.filter(uid=uid, workspace=workspace).select_related("workspace").first()
    if change is None:
        raise NotHere(uid)
    return change


def member_named(workspace: Workspace, uid: str) -> Person:
    """Return somebody who holds a role in a workspace now; raises NotHere."""
    _look_at(uid)
    if uid not in roster_of(workspace):
        raise NotHere(uid)
    return Person.objects.get(uid=uid)


def group_named(workspace: Workspace, uid: str) -> Group:
    """Return a group of people; raises NotHere."""
    _look_at(uid)
    group = Group.objects.filter(uid=uid, workspace=workspace).select_related("workspace").first()
    if group is None:
        raise NotHere(uid)
    return group


def invitation_named(workspace: Workspace, uid: str) -> Invitation:
    """Return an invitation; raises NotHere."""
    _look_at(uid)
    found = Invitation.objects.filter(uid=uid, workspace=workspace).select_related("workspace", "inviter")
    row = found.first()
    if row is None:
        raise NotHere(uid)
    return row


def invitation_by(digest: str) -> Invitation:
    """Return the invitation whose link has this digest, open or not; raises NotHere."""
    row = Invitation.objects.filter(digest=digest).select_related("workspace", "inviter").first()
    if row is None:
        raise NotHere
    return row


def token_named(workspace: Workspace, uid: str) -> ApiToken:
    """Return a token, ended or not; raises NotHere."""
    _look_at(uid)
    token = ApiToken.objects.filter(uid=uid, workspace=workspace).select_related("workspace").first()
    if token is None:
        raise NotHere(uid)
    return token


def job_named(workspace: Workspace, uid: str) -> Job:
    """Return a job; raises NotHere."""
    _look_at(uid)
    job = Job.objects.filter(uid=uid, workspace=workspace).select_related("run").first()
    if job is None:
        raise NotHere(uid)
    return job


def workflow_named(workspace: Workspace, name: str, version: str) -> Workflow:
    """Return a published workflow version; raises NotHere."""
    if "\0" in name + version:
        raise NotHere
    row = Workflow.objects.filter(workspace=workspace, name=name, version=version).first()
    if row is None:
        raise NotHere(name)
    return row


def usable_token(digest: str) -> ApiToken | None:
    """Return the token with this digest that has neither expired nor ended."""
    token = ApiToken.objects.filter(digest=digest, expires_at__gt=now()).select_related("workspace").first()
    if token is None or TokenEnd.objects.filter(token=token).exists():
        return None
    return token


def recorder_of(token: ApiToken) -> Recorder | None:
    """Return the recorder that paired with this token last, or went on under it."""
    # Under a token that somebody went on with, each pairing is a row of those too: their order is one.
    later = RecorderToken.objects.filter(token=token).select_related("recorder__workspace").order_by("-id")
    if (newest := later.first()) is not None:
        return newest.recorder
    return Recorder.objects.filter(token=token).select_related("workspace").order_by("-id").first()


def recorder_named(workspace: Workspace, uid: str) -> Recorder:
    """Return a recorder of a workspace that paired with a key. Raises NotHere."""
    _look_at(uid)
    row = Recorder.objects.filter(workspace=workspace, uid=uid).exclude(box_key="").first()
    if row is None:
        raise NotHere
    return row


def permit_named(recorder: Recorder, uid: str) -> ResumePermit:
    """Return a permit issued to anyone in the recorder's workspace; the command checks the audience."""
    _look_at(uid)
    permit = (
        ResumePermit.objects.filter(uid=uid, branch__workspace_id=recorder.workspace_id)
        .select_related("branch__workspace", "branch__workflow", "branch__root", "recorder", "operator")
        .first()
    )
    if permit is None:
        raise NotHere(uid)
    return permit


def waiting_permits(recorder: Recorder) -> list[ResumePermit]:
    """Return the permits this recorder has not redeemed and still may."""
    return list(
        ResumePermit.objects.filter(
            recorder=recorder,
            redemption__isnull=True,
            end__isnull=True,
            expires_at__gt=now(),
            branch__redemption__isnull=True,
        ).order_by("id")[:20]
    )


def branches_to_stop(recorder: Recorder) -> list[str]:
    """Return running branches whose authority was taken back just now; their lease says so at any time."""
    since = now() - timedelta(seconds=60)
    rows = Revocation.objects.filter(
        branch__recorder=recorder, branch__redemption__isnull=False, at__gt=since
    )
    return list(rows.values_list("branch__uid", flat=True))


def sealed_edits(permit: ResumePermit) -> list[tuple[Edit, bytes]]:
    """Return the newest edit of each message and value with its ciphertext."""
    rows = SealedEdit.objects.filter(edit__branch=permit.branch, recorder=permit.recorder)
    return [(row.edit, bytes(row.ciphertext)) for row in rows.select_related("edit").order_by("id")]


def is_online(recorder: Recorder | None) -> bool:
    """Return whether a recorder was heard from in the last moments."""
    if recorder is None:
        return False
    return Presence.objects.filter(recorder=recorder, heard_at__gt=now() - ONLINE_FOR).exists()


def redemption_of(branch: Run) -> Redemption | None:
    """Return a branch's redemption, if it was resumed."""
    return Redemption.objects.filter(branch=branch).select_related("permit").first()


def owners_of(run: Run) -> tuple[str, ...]:
    """Return who can be named as an owner on a run: the declared names, then the workspace's people."""
    declaration = declaration_of(run)
    present = Person.objects.filter(uid__in=roster_of(run.workspace), is_active=True)
    people = sorted(present.values_list("username", flat=True))
    return tuple(dict.fromkeys((*(declaration.owners if declaration else ()), *people)))


def people_named(run: Run, uids: Collection[str]) -> dict[str, str]:
    """Return what people are called; a receipt may hold any id, and those of other workspaces stay one."""
    if not uids:
        return {}
    here = Person.objects.filter(uid__in=uids, role_grants__workspace_id=run.workspace_id)
    return dict(here.values_list("uid", "username"))
