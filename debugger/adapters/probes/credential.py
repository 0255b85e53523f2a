"""A credential an agent works with: which one, of which class, until when and for what; never itself."""

import hashlib
import json
import os
import re
import stat
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from branches.evidence.canonical import canonical_bytes
from branches.evidence.domains import PART, STATE
from branches.ports import Fact, Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, local_path, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.credential_forms import CLASSES, Credential, Malformed, read_credential
from debugger.adapters.probes.no_journal import NoJournal

MOST_BYTES: Final = 64 * 1024
_KEY_ID: Final = 16
_VARIABLE: Final = re.compile("[A-Za-z_][A-Za-z0-9_]{0,127}")
_TRIES: Final = 3
# A file written again within one tick of the clock keeps its times: what is that young is read again.
_TICK_S: Final = 0.05


class CredentialProbe(NoJournal):
    """Options: `env` (an environment variable's name) or `file`; `class`, where it is known what it is."""

    part_names = ("key", "class", "expiry", "scopes")
    limits = (
        "Which credential it is and what it says of itself are compared; whether its issuer still takes it,"
        " and what it may do beyond its own words, are not."
    )
    remedy = "Put the credential that was recorded back in place, or acknowledge that another one is used."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Look at the credential where it lies; nothing is asked of its issuer."""
        del moment
        try:
            hint = text(target, "class") if "class" in target.options else None
            if hint is not None and hint not in CLASSES:
                raise TargetUnfit("class", "known")
            content = _content(target)
            found = None if content is None else read_credential(content, hint)
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        except Malformed:
            return StateMeasurement(None, reachable=False, problem="credential_malformed")
        if found is None:
            return StateMeasurement(target.key.digest(STATE, b"credential\0absent"), {"class": "absent"})
        return _measurement(target, found)


def _measurement(target: Target, found: Credential) -> StateMeasurement:
    """Say which credential it is by a shortened HMAC of the secret; that it ran out is a fact of today.

    The secret is stretched first: on the command line the key is no secret, and passwords can be guessed.
    """
    key = target.key
    code = key.digest(STATE, b"credential-key\0" + _stretched(found.secret)).rpartition(":")[2]
    scopes = None if found.scopes is None else sorted(set(found.scopes))
    seen: dict[str, str | int | None] = {
        "key": code[:_KEY_ID],
        "class": found.sort,
        "expiry": None if found.expires is None else int(found.expires.timestamp()),
        "scopes": None if scopes is None else hashlib.sha256(json.dumps(scopes).encode()).hexdigest(),
    }
    facts: dict[str, Fact] = {"class": found.sort}
    if found.expires is not None:
        facts["expired"] = found.expires <= datetime.now(UTC)
    if scopes is not None:
        facts["scopes"] = len(scopes)
    parts = {
        key.digest(PART, name): key.digest(STATE, b"credential\0" + canonical_bytes({name: seen[name]}))
        for name in CredentialProbe.part_names
    }
    return StateMeasurement(key.digest(STATE, b"credential\0" + canonical_bytes(seen)), facts, parts=parts)


def _stretched(secret: bytes) -> bytes:
    """32 bytes that cost about 40 ms and 16 MB a guess."""
    return hashlib.scrypt(secret, salt=b"branchgate/credential/v1", n=2**14, r=8, p=1, dklen=32)


def _content(target: Target) -> bytes | None:
    """Return what stands there, None where nothing does. Raises TargetUnfit, Unreachable."""
    if ("env" in target.options) == ("file" in target.options):
        raise TargetUnfit("env", "env_or_file")
    if "file" in target.options:
        content = _read(local_path(target, "file"))
    else:
        name = text(target, "env")
        if not _VARIABLE.fullmatch(name):
            raise TargetUnfit("env", "variable")
        content = os.fsencode(os.environ.get(name, ""))
    if len(content) > MOST_BYTES:
        raise Unreachable("too_large")
    return content.strip() or None


def _read(path: Path) -> bytes:
    """Return a file that stayed as it was while it was read; empty where it is not in its folder."""
    try:
        for _ in range(_TRIES):
            if (content := _read_once(path)) is not None:
                return content
            time.sleep(_TICK_S)
    except FileNotFoundError:
        if os.access(path.parent, os.X_OK):
            return b""
        raise Unreachable("path_absent") from None
    except OSError:
        raise Unreachable("file_unreadable") from None
    raise Unreachable("changing")


def _read_once(path: Path) -> bytes | None:
    """Return the file's bytes, one more than allowed at most; None where it changed meanwhile."""
    began, tick = time.time_ns(), int(_TICK_S * 1e9)
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        before = os.fstat(opened)
        if not stat.S_ISREG(before.st_mode):
            raise Unreachable("file_unreadable")
        content, after = os.read(opened, MOST_BYTES + 1), os.fstat(opened)
    finally:
        os.close(opened)
    is_same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    is_young = began - tick < after.st_mtime_ns < time.time_ns() + tick
    is_whole = len(content) == min(after.st_size, MOST_BYTES + 1)
    return content if is_same and is_whole and not is_young else None
