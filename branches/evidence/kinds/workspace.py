"""What a workspace's own chain records: people, roles, policies, tokens, keys and what was registered."""

from typing import Final

from branches.evidence.kinds.forms import (
    BOOLEAN,
    PERSON,
    RECORDER,
    RUN,
    SHA256,
    TIMESTAMP,
    VERSION,
    WORD,
    WORKFLOW,
    Declared,
    Schema,
    an_id,
    enum,
    integer,
    listing,
    name,
    nullable,
    record,
)

ROLES: Final = (
    "viewer",
    "engineer",
    "approver",
    "destination_owner",
    "reviewer",
    "policy_admin",
    "auditor",
)
MOST_CHECKS: Final = 64
"""As many checks a conformance suite of a recorder may have."""
SCOPES: Final = ("ingest", "redeem", "probe", "outcome", "read")

_TOKEN: Final = an_id("tok")
_ROLE: Final = record(
    {
        "person": PERSON,
        "role": enum(*ROLES),
        "class": nullable(enum("C1", "C2", "C3", "C4", "CP")),
        "destination": nullable(name(Declared.DESTINATION)),
        "until": nullable(TIMESTAMP),
    }
)
_GROUP: Final = an_id("grp")
_INVITATION: Final = an_id("inv")
_CHANGE: Final = an_id("pol")
_MEMBERSHIP: Final = record({"group": _GROUP, "person": PERSON})
SIGN_IN_METHODS: Final = ("password", "passkey", "provider", "one_click", "recovery_code")
_KEY: Final = record({"key": SHA256, "use": enum("signing", "hmac", "sealing", "webhook")})

WORKSPACE: Final[dict[str, Schema]] = {
    "person_joined": record({"person": PERSON}),
    "person_left": record({"person": PERSON}),
    "role_granted": _ROLE,
    "role_withdrawn": _ROLE,
    "signed_in": record({"person": PERSON, "method": enum(*SIGN_IN_METHODS), "second_factor": BOOLEAN}),
    "group_made": record({"group": _GROUP}),
    "group_joined": _MEMBERSHIP,
    "group_left": _MEMBERSHIP,
    "person_invited": record({"invitation": _INVITATION, "expires_at": TIMESTAMP}),
    "invitation_ended": record({"invitation": _INVITATION, "end": enum("accepted", "withdrawn")}),
    # A change of class CP: a policy, a role or group that gives authority, a workflow that lowers one.
    "change_proposed": record(
        {
            "change": _CHANGE,
            "sort": enum("policy", "role", "group", "workflow"),
            "digest": SHA256,
            "policy": SHA256,
            "approvals": integer(),
            "expires_at": TIMESTAMP,
        }
    ),
    "change_decided": record(
        {"change": _CHANGE, "verdict": enum("approved", "rejected"), "digest": SHA256, "policy": SHA256}
    ),
    "change_ended": record(
        {
            "change": _CHANGE,
            "end": enum("adopted", "rejected", "withdrawn", "expired", "superseded"),
            "effective_at": nullable(TIMESTAMP),
        }
    ),
    "policy_adopted": record({"policy": SHA256, "version": VERSION, "effective_at": TIMESTAMP}),
    "token_issued": record(
        {
            "token": _TOKEN,
            "scopes": listing(enum(*SCOPES), len(SCOPES)),
            "expires_at": nullable(TIMESTAMP),
        }
    ),
    "token_revoked": record({"token": _TOKEN}),
    "key_added": _KEY,
    "key_retired": _KEY,
    "recorder_paired": record({"recorder": RECORDER, "key": SHA256}),
    "recorder_continued": record({"recorder": RECORDER, "token": _TOKEN}),
    "recorder_removed": record({"recorder": RECORDER}),
    "recorder_conformed": record(
        {
            "recorder": RECORDER,
            "runtime": name(Declared.RUNTIME),
            "runtime_version": VERSION,
            "suite": VERSION,
            "passed": listing(WORD, MOST_CHECKS),
            "failed": listing(WORD, MOST_CHECKS),
        }
    ),
    # An act of authority stands on the chain of its run; here is the link that names it.
    "recorded": record({"run": RUN, "seq": integer(1), "kind": WORD, "digest": SHA256}),
    "destination_registered": record({"destination": name(Declared.DESTINATION), "declaration": SHA256}),
    "workflow_declared": record({"workflow": WORKFLOW, "version": VERSION, "declaration": SHA256}),
}
