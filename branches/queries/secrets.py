"""The keys of this installation, all derived from one master secret that never touches the database."""

from functools import cache

from django.conf import settings

from branches.evidence import keys
from branches.evidence.signing import Signer
from branches.models import Workspace


@cache
def _workspace_key(uid: str) -> keys.HmacKey:
    return keys.workspace_key(settings.BRANCHGATE_MASTER_KEY, uid)


def workspace_key(workspace: Workspace) -> keys.HmacKey:
    """Return the key under which the workspace's foreign ids and content are fingerprinted."""
    return _workspace_key(workspace.uid)


def webhook_secret(uid: str) -> bytes:
    """Return the secret that signs the notices of one webhook."""
    return keys.derive_key(settings.BRANCHGATE_MASTER_KEY, f"webhook {uid}")


@cache
def signer() -> Signer:
    """Return the key that signs permits and governance receipts."""
    return Signer(keys.signing_seed(settings.BRANCHGATE_MASTER_KEY))
