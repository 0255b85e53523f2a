"""Keys, keyed digests, and the master secret's file."""

import hashlib
import hmac
import subprocess
import sys

import pytest

from branches.evidence import ids, keys
from branches.evidence.keys import HmacKey, KeyFormError

MASTER = bytes(range(32))


def test_a_keyed_digest_is_hmac_over_domain_and_value():
    key = HmacKey("0a1b2c3d", b"k" * 32)
    expected = hmac.new(b"k" * 32, b"branchgate/name/v1\0ada", hashlib.sha256).hexdigest()
    assert key.digest("branchgate/name/v1", "ada") == f"hmac-sha256:0a1b2c3d:{expected}"
    assert key.digest("branchgate/name/v1", b"ada") == key.digest("branchgate/name/v1", "ada")
    assert key.digest("branchgate/other/v1", "ada") != key.digest("branchgate/name/v1", "ada")
    assert key.digest_of("d", {"b": 1, "a": 2}) == key.digest("d", b'{"a":2,"b":1}')
    assert keys.is_hmac(key.digest("d", "x"))
    assert keys.is_digest(key.digest("d", "x"))


def test_what_is_no_labelled_digest():
    good = "sha256:" + "a" * 64
    assert keys.is_digest(good)
    assert not keys.is_hmac(good)
    for bad in (good + "\n", good.upper(), good[:-1], "md5:" + "a" * 64, "hmac-sha256:secret!:" + "a" * 64):
        assert not keys.is_digest(bad)


def test_no_secret_is_shown():
    key = HmacKey("0a1b2c3d", b"not-to-be-shown-not-to-be-shown!")
    assert "shown" not in repr(key) + str(key) + f"{key}"
    assert "0a1b2c3d" in repr(key)


def test_keys_are_separated_by_purpose_and_workspace():
    first, second = ids.mint("ws"), ids.mint("ws")
    derived = {
        keys.workspace_key(MASTER, first).secret,
        keys.workspace_key(MASTER, second).secret,
        keys.signing_seed(MASTER),
        keys.derive_key(MASTER, "other"),
        MASTER,
    }
    assert len(derived) == 5
    assert keys.workspace_key(MASTER, first) == keys.workspace_key(MASTER, first)
    assert keys.workspace_key(MASTER, first).key_id != keys.workspace_key(MASTER, second).key_id


def test_derivation_does_not_change_between_versions():
    assert (
        keys.derive_key(MASTER, "test").hex()
        == "672d3955ecaa5987ca98200461faf2472c542ae9ac2881d66110c3f26ae6f9cd"
    )


def test_it_refuses_keys_of_the_wrong_form():
    with pytest.raises(KeyFormError):
        HmacKey("Not Hex!", b"k" * 32)
    with pytest.raises(KeyFormError):
        HmacKey("0a1b2c3d", b"short")
    with pytest.raises(KeyFormError):
        keys.derive_key(b"short", "x")


def test_the_master_is_made_once_and_only_its_owner_reads_it(tmp_path):
    path = tmp_path / "var" / "master.key"
    first = keys.load_or_create_master(path)
    assert len(first) == 32
    assert keys.load_or_create_master(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["master.key"]


def test_it_refuses_a_master_cut_short_or_open_to_others(tmp_path):
    path = tmp_path / "master.key"
    path.write_bytes(b"short")
    path.chmod(0o600)
    with pytest.raises(KeyFormError, match="wrong_length"):
        keys.load_or_create_master(path)
    path.write_bytes(bytes(32))
    path.chmod(0o644)
    with pytest.raises(KeyFormError, match="readable_by_others"):
        keys.load_or_create_master(path)


def test_the_first_master_stays_where_two_are_made(tmp_path):
    path = tmp_path / "master.key"
    first = keys.load_or_create_master(path)
    keys._create_master(path)
    assert keys.load_or_create_master(path) == first
    assert [each.name for each in tmp_path.iterdir()] == ["master.key"]


def test_processes_that_start_at_once_get_the_same_master(tmp_path):
    script = (
        "import sys, pathlib\n"
        "from branches.evidence.keys import load_or_create_master\n"
        "sys.stdin.read(1)\n"
        "print(load_or_create_master(pathlib.Path(sys.argv[1])).hex())\n"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "master.key")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for process in started:
        process.stdin.write("g")
        process.stdin.flush()
    assert len({process.communicate()[0] for process in started}) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["master.key"]
