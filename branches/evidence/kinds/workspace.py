"""What a workspace's own chain records: people, roles, policies, tokens, keys and what was registered."""

from typing import Final

from branches.evidence.kinds.forms import (
    PERSON,
    RECORDER,
    SHA256,
    TIMESTAMP,
    VERSION,
    WORKFLOW,
    Declared,
    Schema,
    an_id,
    enum,
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
SCOPES: Final = ("ingest", "redeem", "probe", "outcome", "read")

_TOKEN: Final = an_id("tok")
_ROLE: Final = record(
    {
        "person": PERSON,
        "role": enum(*ROLES),
        "class": nullable(enum("C1", "C2", "C3", "C4", "CP")),
        "destination": nullable(name(Declared.DESTINATION)),
    }
)
_KEY: Final = record({"key": SHA256, "use": enum("signing", "hmac", "sealing", "webhook")})

WORKSPACE: Final[dict[str, Schema]] = {
    "person_joined": record({"person": PERSON}),
    "person_left": record({"person": PERSON}),
    "role_granted": _ROLE,
    "role_withdrawn": _ROLE,
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
    "recorder_removed": record({"recorder": RECORDER}),
    "destination_registered": record({"destination": name(Declared.DESTINATION), "declaration": SHA256}),
    "workflow_declared": record({"workflow": WORKFLOW, "version": VERSION, "declaration": SHA256}),
}
