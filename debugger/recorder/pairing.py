"""Who this recorder is: its box key, the server's pinned verification key and the workspace's HMAC key."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from branches.evidence.boxes import BoxKey
from branches.evidence.keys import HmacKey
from debugger.recorder.client import Client, GateRefused
from debugger.recorder.frames import private_file

_BOX: Final = "box.key"
_IDENTITY: Final = "identity.json"
_NOT_THERE: Final = 404


class ServerKeyChanged(Exception):
    """The server now shows another verification key than the one pinned at pairing."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What pairing gave; the secrets show only their ids."""

    recorder: str
    workspace: str
    server_keys: Mapping[str, bytes]
    """Key id -> 32 bytes of an Ed25519 public key."""
    key: HmacKey
    box: BoxKey = field(repr=False)


def paired(home: Path) -> Identity | None:
    """Return the identity kept in the home folder, or None before the first pairing."""
    path = home / _IDENTITY
    return _read(path.read_bytes(), box_key(home)) if path.exists() else None


def pair(home: Path, client: Client, *, name: str, runtime: Mapping[str, str]) -> Identity:
    """Pair with the server and keep the result; the same home always pairs as the same recorder.

    A token that replaced another one is the recorder's from then on. Raises GateUnreachable, GateRefused, or
    ServerKeyChanged when an earlier pairing pinned another key.
    """
    box, before = box_key(home), paired(home)
    if before is not None:
        _go_on_if_known(before, client)
    answer = client.pair(name, base64.b64encode(box.public).decode("ascii"), runtime)
    sealed = base64.b64decode(answer["hmac_key"]["sealed"])
    kept = {
        "recorder": answer["recorder"],
        "workspace": answer["workspace"],
        "server_key": {"key_id": answer["server_key"]["key_id"], "public": answer["server_key"]["public"]},
        "hmac_key": {
            "key_id": answer["hmac_key"]["key_id"],
            "secret": base64.b64encode(box.open(sealed)).decode("ascii"),
        },
    }
    raw = json.dumps(kept, sort_keys=True).encode()
    identity = _read(raw, box)
    if before is not None and before.server_keys != identity.server_keys:
        raise ServerKeyChanged("server_key: not the one pinned at pairing")
    private_file(home / _IDENTITY, raw)
    return identity


def _go_on_if_known(before: Identity, client: Client) -> None:
    """Go on as before where the server knows of it: another server, or workspace, pairs anew."""
    try:
        go_on(before, client)
    except GateRefused as refused:
        if refused.status != _NOT_THERE:
            raise


def go_on(identity: Identity, client: Client) -> None:
    """Go on as the recorder that paired before, under the client's token: for one that replaced another.

    Raises GateUnreachable, and GateRefused where the token is of another workspace or may not redeem.
    """
    held = identity.box.open(base64.b64decode(client.challenge(identity.recorder)))
    client.go_on(identity.recorder, base64.b64encode(held).decode("ascii"))


def box_key(home: Path) -> BoxKey:
    """Return the home's own key pair, made on first use (mode 0600)."""
    path = home / _BOX
    if not path.exists():
        private_file(path, BoxKey.generate().private_bytes())
    return BoxKey(path.read_bytes())


def _read(raw: bytes, box: BoxKey) -> Identity:
    kept: dict[str, Any] = json.loads(raw)
    server, secret = kept["server_key"], kept["hmac_key"]
    return Identity(
        recorder=kept["recorder"],
        workspace=kept["workspace"],
        server_keys={server["key_id"]: base64.b64decode(server["public"])},
        key=HmacKey(secret["key_id"], base64.b64decode(secret["secret"])),
        box=box,
    )
