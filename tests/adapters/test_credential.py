"""The credential probe on credentials of every class: which one, until when, for what, and never itself."""

import base64
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from branches.evidence.keys import is_hmac
from branches.ports import StateMeasurement, StateProbe, Unsupported
from debugger.adapters.probes import credential
from debugger.adapters.probes.credential import CredentialProbe
from tests.adapters.places import KEY, MARKER, MOMENT, target
from tests.adapters.wire import leaves_nothing_open

NAME = "BRANCHGATE_TEST_CREDENTIAL"
SOON = 4_000_000_000  # in 2096: a moment of today would give each test another name in each worker
LONG_AGO = 1_000_000_000


def measured(secret: str | bytes, monkeypatch: Any, **options: Any) -> StateMeasurement:
    monkeypatch.setenv(NAME, os.fsdecode(secret) if isinstance(secret, bytes) else secret)
    return CredentialProbe().measure(target(env=NAME, **options), MOMENT)


def in_file(path: Path, content: bytes | str, **options: Any) -> StateMeasurement:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return CredentialProbe().measure(target(file=str(path), **options), MOMENT)


def problem(**options: Any) -> str | None:
    found = CredentialProbe().measure(target(**options), MOMENT)
    assert (found.fingerprint, found.reachable, found.facts, found.parts) == (None, False, {}, {})
    return found.problem


def jwt(sign: str = "c2ln", **claims: Any) -> str:
    pieces = ({"alg": "HS256", "typ": "JWT"}, claims)
    coded = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=").decode() for each in pieces]
    return ".".join([*coded, sign])


def certificate(days: int) -> bytes:
    key = Ed25519PrivateKey.generate()
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, MARKER)])
    now = datetime(2026, 1, 1, tzinfo=UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(now - timedelta(days=999))
        .not_valid_after(now + timedelta(days=days))
        .sign(key, None)
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return made.public_bytes(Encoding.PEM) + private


def parts_that_differ(one: StateMeasurement, other: StateMeasurement) -> set[str]:
    names = {KEY.digest("part", name): name for name in CredentialProbe.part_names}
    return {names[part] for part in one.parts if one.parts[part] != other.parts[part]}


def test_it_fulfils_its_port_and_has_no_past() -> None:
    probe = CredentialProbe()
    assert isinstance(probe, StateProbe)
    for sentence in (probe.limits, probe.remedy):
        assert sentence.endswith(".")
        assert 40 < len(sentence) < 260
    with pytest.raises(Unsupported):
        probe.capture(target(), MOMENT)
    assert probe.measure(target(), MOMENT).problem == "target_unfit"


@pytest.mark.parametrize(
    ("secret", "facts"),
    [
        (f"sk-{MARKER}-0123456789", {"class": "api_key"}),
        (f"Bearer {MARKER}-0123456789", {"class": "oauth_token"}),
        (jwt(sub=MARKER), {"class": "jwt"}),
        (jwt(exp=SOON, scope=f"read write {MARKER}"), {"class": "jwt", "expired": False, "scopes": 3}),
        (f"Bearer {jwt(exp=LONG_AGO + 0.5, scp=['read'])}", {"class": "jwt", "expired": True, "scopes": 1}),
        (jwt(scope=""), {"class": "jwt", "scopes": 0}),
        (f"ada:{MARKER} and more", {"class": "basic"}),
        ("Basic YWRhOnNlY3JldA==", {"class": "basic"}),
        (
            json.dumps({"access_token": MARKER, "expires_at": SOON}),
            {"class": "oauth_token", "expired": False},
        ),
        (
            json.dumps({"token": MARKER, "expiry": "2020-01-01T00:00:00Z", "scopes": ["a", "a", "b"]}),
            {"class": "oauth_token", "expired": True, "scopes": 2},
        ),
        (
            json.dumps({"refresh_token": MARKER, "expires_at": SOON * 1000}),
            {"class": "oauth_token", "expired": False},
        ),
        (json.dumps({"something": MARKER}), {"class": "unknown"}),
        (f"two words {MARKER}", {"class": "unknown"}),
        ("short", {"class": "unknown"}),
        (b"\xff\xfe" + MARKER.encode(), {"class": "unknown"}),
        (certificate(99_999), {"class": "pem", "expired": False}),
        (certificate(1), {"class": "pem", "expired": True}),
        (certificate(1).split(b"-----END CERTIFICATE-----\n")[1], {"class": "pem"}),
        ("", {"class": "absent"}),
        (" \n", {"class": "absent"}),
    ],
)
def test_it_says_of_what_class_it_is_and_until_when(
    secret: str | bytes, facts: dict[str, Any], monkeypatch: Any, tmp_path: Path, capfd: Any, caplog: Any
) -> None:
    caplog.set_level("DEBUG")
    found = measured(secret, monkeypatch)
    assert found.facts == facts
    assert is_hmac(found.fingerprint or "")
    assert in_file(tmp_path / "secret", secret if isinstance(secret, bytes) else secret + "\n") == found
    assert MARKER not in repr(found) + "".join(capfd.readouterr()) + caplog.text


def test_it_says_what_another_credential_differs_in(monkeypatch: Any) -> None:
    first = measured(jwt(exp=SOON, scope="read write"), monkeypatch)
    assert measured(jwt(exp=SOON, scope="read write"), monkeypatch) == first
    other_key = measured(jwt("b3RoZXI", exp=SOON, scope="write read"), monkeypatch)
    assert parts_that_differ(first, other_key) == {"key"}
    longer = measured(jwt(exp=SOON + 1, scope="read write"), monkeypatch)
    assert parts_that_differ(first, longer) == {"key", "expiry"}
    wider = measured(jwt(exp=SOON, scope="read write admin"), monkeypatch)
    assert parts_that_differ(first, wider) == {"key", "scopes"}
    whole = {each.fingerprint for each in (first, other_key, longer, wider)}
    assert len(whole) == 4
    absent = measured("", monkeypatch)
    assert absent.fingerprint not in whole


def test_it_is_one_state_before_and_after_it_ran_out(monkeypatch: Any) -> None:
    """The expiry belongs to the state; that it is over belongs to the day."""
    secret = jwt(exp=SOON)
    before = measured(secret, monkeypatch)

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.fromtimestamp(SOON + 1, tz)

    monkeypatch.setattr(credential, "datetime", Later)
    after = measured(secret, monkeypatch)
    assert (before.facts["expired"], after.facts["expired"]) == (False, True)
    assert after.fingerprint == before.fingerprint


def test_it_is_the_same_in_another_process_and_under_another_name(monkeypatch: Any, tmp_path: Path) -> None:
    secret = json.dumps({"access_token": MARKER, "scopes": ["b", "a"], "expires_at": SOON})
    code = "import sys; from tests.adapters.test_credential import *\n"
    code += "print(CredentialProbe().measure(target(env=sys.argv[1]), MOMENT).fingerprint)"
    said = subprocess.run(
        [sys.executable, "-c", code, "OTHER_NAME"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "OTHER_NAME": secret, "PYTHONHASHSEED": "5"},
        check=True,
        capture_output=True,
        text=True,
    )
    turned = json.dumps({"expires_at": SOON, "scopes": ["a", "b"], "access_token": MARKER}, indent=2)
    assert said.stdout.strip() == measured(secret, monkeypatch).fingerprint
    assert in_file(tmp_path / "token", turned).fingerprint == said.stdout.strip()


def test_it_gives_nothing_a_short_password_could_be_guessed_from_cheaply(monkeypatch: Any) -> None:
    """Whoever knows the key (on the command line everybody) pays for each guess."""
    counted = []
    real = credential._stretched
    monkeypatch.setattr(credential, "_stretched", lambda secret: counted.append(secret) or real(secret))
    found = measured("ada:1234", monkeypatch)
    assert counted == [b"ada:1234"]
    plain = {KEY.digest("state", content) for content in (b"ada:1234", b"credential-key\0ada:1234")}
    shown = {found.fingerprint, *found.parts.values()}
    assert not any(digest.rpartition(":")[2][:16] in "".join(map(str, shown)) for digest in plain)


@pytest.mark.parametrize("hint", ["api_key", "oauth_token", "unknown"])
def test_it_believes_a_hint_where_anything_may_be_so(hint: str, monkeypatch: Any) -> None:
    assert measured("any words at all", monkeypatch, **{"class": hint}).facts == {"class": hint}


@pytest.mark.parametrize(
    ("hint", "secret"),
    [
        *(
            ("jwt", "no token"),
            ("jwt", "a.b.c"),
            ("pem", "no token"),
            ("basic", "no pair"),
            ("basic", "Basic !!!"),
        ),
        *(
            ("basic", "Basic bm9uZQ=="),
            ("oauth_token", '{"a": 1}'),
            (None, jwt(exp="soon")),
            (None, jwt(exp=True)),
        ),
        *((None, jwt(exp=-1)), (None, jwt(exp=1e300)), (None, jwt(scope=7)), (None, jwt(scp=[1]))),
        (None, json.dumps({"token": "x", "expires_at": "some day"})),
        (None, '{"token": "x", "expires_at": NaN}'),
        (None, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"),
    ],
)
def test_it_guesses_nothing_from_what_it_cannot_read(hint: str | None, secret: str, monkeypatch: Any) -> None:
    found = measured(secret, monkeypatch, **({} if hint is None else {"class": hint}))
    assert (found.fingerprint, found.reachable, found.problem) == (None, False, "credential_malformed")


@pytest.mark.parametrize(
    "options",
    [
        *({"env": NAME, "file": "/x"}, {"env": ""}, {"env": "A B"}, {"env": "1A"}),
        *({"file": "/a\0b"}, {"env": NAME, "class": "password"}, {"env": 7}, {}),
    ],
)
def test_it_looks_only_where_the_target_says(options: dict[str, Any]) -> None:
    assert problem(**options) == "target_unfit"


def test_it_takes_a_missing_file_in_its_folder_for_absent_and_a_missing_folder_for_unknown(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.delenv(NAME, raising=False)
    absent = CredentialProbe().measure(target(env=NAME), MOMENT)
    assert (absent.reachable, absent.facts) == (True, {"class": "absent"})
    assert CredentialProbe().measure(target(file=str(tmp_path / "none")), MOMENT) == absent
    assert in_file(tmp_path / "empty", "\n") == absent
    (tmp_path / "link").symlink_to(tmp_path / "none")
    assert CredentialProbe().measure(target(file=str(tmp_path / "link")), MOMENT) == absent
    assert problem(file=str(tmp_path / "gone" / "none")) == "path_absent"
    assert problem(file=str(tmp_path / "empty" / "none")) == "file_unreadable"


def test_it_waits_at_no_pipe_and_reads_no_folder_or_more_than_it_may(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * (credential.MOST_BYTES + 1))
    with leaves_nothing_open():
        assert problem(file=str(tmp_path / "pipe")) == "file_unreadable"
        assert problem(file=str(tmp_path)) == "file_unreadable"
        assert problem(file="/dev/zero") == "file_unreadable"
        assert problem(file=str(tmp_path / "large")) == "too_large"


def test_it_reads_again_what_changed_once_in_the_middle(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "token"
    path.write_text("a" * 32)
    read = os.read
    changed: list[int] = []

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        if not changed:
            changed.append(path.write_text("b" * 40))
        return found

    monkeypatch.setattr(credential.os, "read", meddle)
    found = CredentialProbe().measure(target(file=str(path)), MOMENT)
    monkeypatch.undo()
    assert changed == [40]
    assert found == CredentialProbe().measure(target(file=str(path)), MOMENT)


def test_it_believes_no_file_that_is_written_all_the_time(tmp_path: Path, monkeypatch: Any) -> None:
    """Whenever it is read, with one size: often in the very tick of the clock of the time before."""
    path, read, written = tmp_path / "token", os.read, list[int]()
    path.write_text("x" * 60_000)

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        with path.open("r+b", buffering=0) as file:
            written.append(file.write(os.urandom(30_000).hex().encode()))
        return found

    monkeypatch.setattr(credential.os, "read", meddle)
    seen = {CredentialProbe().measure(target(file=str(path)), MOMENT).problem for _ in range(5)}
    assert seen == {"changing"}
    assert written == [60_000] * 15


def test_it_believes_no_reading_in_which_a_change_kept_the_time(tmp_path: Path, monkeypatch: Any) -> None:
    """Changed again within a tick after it was read, and looked at only long after that."""
    path, read, changed = tmp_path / "token", os.read, list[bytes]()

    def meddle(*given: Any) -> bytes:
        found = read(*given)
        if not changed:
            times = path.stat()
            changed.append(found)
            path.write_text("b" * 32)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            time.sleep(3 * credential._TICK_S)
        return found

    monkeypatch.setattr(credential.os, "read", meddle)
    path.write_text("a" * 32)
    found = CredentialProbe().measure(target(file=str(path)), MOMENT)
    monkeypatch.undo()
    assert changed == [b"a" * 32]
    assert found == CredentialProbe().measure(target(file=str(path)), MOMENT)
