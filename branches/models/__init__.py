"""Rows that are only ever added, and beside them the few that may change."""

from branches.models.authority import (
    ApprovalRequest,
    Decision,
    PermitEnd,
    Redemption,
    RequestEnd,
    ResumePermit,
    Revocation,
)
from branches.models.forks import ConfigurationPin, Edit, ForkPoint
from branches.models.inbound import InboundMessage
from branches.models.operations import (
    MAX_SUBJECT,
    AuditState,
    AuditWatch,
    EdgeCount,
    Job,
    JobKind,
    JobState,
    Lease,
    Notice,
    NoticeKind,
    Presence,
    SealedEdit,
)
from branches.models.people import (
    ApiToken,
    Person,
    Recorder,
    Role,
    RoleGrant,
    TokenEnd,
    Workspace,
)
from branches.models.runs import MapBlock, Receipt, Run
from branches.models.workflows import Contract, Workflow

__all__ = [
    "MAX_SUBJECT",
    "ApiToken",
    "ApprovalRequest",
    "AuditState",
    "AuditWatch",
    "ConfigurationPin",
    "Contract",
    "Decision",
    "EdgeCount",
    "Edit",
    "ForkPoint",
    "InboundMessage",
    "Job",
    "JobKind",
    "JobState",
    "Lease",
    "MapBlock",
    "Notice",
    "NoticeKind",
    "PermitEnd",
    "Person",
    "Presence",
    "Receipt",
    "Recorder",
    "Redemption",
    "RequestEnd",
    "ResumePermit",
    "Revocation",
    "Role",
    "RoleGrant",
    "Run",
    "SealedEdit",
    "TokenEnd",
    "Workflow",
    "Workspace",
]
