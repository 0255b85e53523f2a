"""The git destination and verifier against real repositories, by path, over HTTP and with what misbehaves."""

import os
import shutil
import socket
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from branches.ports import (
    Answer,
    Arrival,
    Baseline,
    Check,
    DestinationQuery,
    ListsArrivals,
    OutcomeVerifier,
    Question,
    Target,
)
from debugger.adapters.destinations import git_commands
from debugger.adapters.destinations.git_ref import GitRefDestination, GitRefVerifier
from tests.adapters.mail_server import certify
from tests.adapters.places import KEY, MARKER, NOW, Web, git, target
from tests.adapters.places_git import Forge, host
from tests.adapters.talks import NAMED, OPERATION, OTHER, drips, hurry, nothing_of, says, server, stalls
from tests.adapters.test_http_json import payload
from tests.patience import comes, ends

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not on this machine")


@pytest.fixture
def forge(tmp_path: Path) -> Forge:
    return Forge(tmp_path)


def ask(place: Target, sent: str | None = None) -> Any:
    return GitRefDestination().ask(place, Question(OPERATION, "push", sent))


def check(place: Target, base: str | None, keys: frozenset[str] = frozenset(), expected: str = "done") -> Any:
    return GitRefVerifier().check(place, expected, base, keys)


def test_it_fulfils_its_ports() -> None:
    assert isinstance(GitRefDestination(), DestinationQuery)
    assert isinstance(GitRefDestination(), ListsArrivals)
    assert isinstance(GitRefVerifier(), OutcomeVerifier)
    assert GitRefDestination.limits.endswith(".")


def test_it_finds_the_ref_of_an_operation_and_names_its_commit(forge: Forge) -> None:
    assert ask(forge.target()).answer is Answer.ABSENT
    forge.push(f"agent/{NAMED}")
    found = ask(forge.target())
    assert (found.answer, found.version) == (Answer.PRESENT, forge.first[:32])
    assert found.fingerprint == KEY.digest("content", f"git\0{forge.first}")
    assert nothing_of(found, MARKER, NAMED, "refs/heads")


def test_a_ref_of_the_same_ending_or_of_another_operation_is_not_the_one(forge: Forge) -> None:
    forge.push(f"x/refs/heads/agent/{NAMED}")
    forge.push(f"agent/{OTHER.replace(':', '-')}")
    assert ask(forge.target()).answer is Answer.ABSENT


def test_it_takes_the_commit_behind_an_annotated_tag(forge: Forge) -> None:
    git(forge.tree, "tag", "-a", f"agent/{NAMED}", "-m", MARKER)
    git(forge.tree, "push", "-q", str(forge.bare), f"refs/tags/agent/{NAMED}")
    found = ask(forge.target(ref="refs/tags/agent/{operation_key}"))
    assert found.version == forge.first[:32]


def test_it_rebuilds_the_payload_from_commit_and_tree(forge: Forge) -> None:
    forge.push(f"agent/{NAMED}")
    tree = git(forge.tree, "rev-parse", "HEAD^{tree}").strip()
    place = forge.target(payload=["sha", "tree"], fields={"sha": "commit"})
    sent = payload({"sha": forge.first, "tree": tree}, "push")
    assert ask(place, sent).answer is Answer.PRESENT
    assert ask(place, sent).fingerprint == sent
    assert ask(place, payload({"sha": "0" * 40, "tree": tree}, "push")).answer is Answer.CHANGED


def test_it_finds_the_commit_that_carries_the_key_in_a_trailer(forge: Forge) -> None:
    place = forge.target(trailer="Operation-Key", ref=None)
    assert ask(place).answer is Answer.ABSENT
    forge.commit(f"mentions {OPERATION}")
    forge.commit("longer", f"Operation-Key: {OPERATION}y")
    commit = forge.commit("second", f"Operation-Key: {OPERATION}\nSigned-off-by: a <a@b>")
    forge.commit("third")
    forge.push("topic")
    found = ask(place)
    assert (found.answer, found.version) == (Answer.PRESENT, commit[:32])
    assert (
        ask(forge.target(trailer="Operation-Key", ref=None, below="refs/heads/main/")).answer is Answer.ABSENT
    )
    forge.commit("again", f"Operation-Key: {OPERATION}")
    forge.push("topic")
    assert (ask(place).answer, ask(place).problem) == (Answer.UNKNOWN, "ambiguous")


def test_it_believes_no_history_that_was_cut(forge: Forge, tmp_path: Path) -> None:
    forge.commit("second")
    forge.push("main")
    git(tmp_path, "clone", "-q", "--bare", "--depth=1", f"file://{forge.bare}", str(tmp_path / "cut.git"))
    place = forge.target(remote=str(tmp_path / "cut.git"), trailer="Operation-Key", ref=None)
    assert (ask(place).answer, ask(place).problem) == (Answer.UNKNOWN, "shallow")


@pytest.mark.parametrize(
    "options",
    [
        {"ref": "refs/heads/main"},
        {"ref": "agent/{operation_key}"},
        {"ref": "refs/heads/../{operation_key}"},
        {"ref": "refs/heads/*/{operation_key}"},
        {"ref": "refs/{operation_key}/{operation_key}"},
        {"remote": "ext::sh -c true"},
        {"remote": "--upload-pack=true"},
        {"remote": "relative"},
        {"remote": "/a/../b"},
        {"remote": "http://93.184.216.34/a.git"},
        {"remote": "https://user:pw@example.com/a.git"},
        {"remote": "ssh://git@127.0.0.1/a.git", "allow": "loopback"},
        {"remote": "https://127.0.0.1/a.git", "allow": 3},
        {"remote": "https://127.0.0.1/a.git", "allow": "loopback", "trailer": "Operation-Key"},
        {"trailer": "a b"},
        {"trailer": "Operation-Key", "below": "heads"},
    ],
)
def test_it_says_unknown_where_its_target_is_unfit(forge: Forge, options: dict[str, Any]) -> None:
    found = ask(forge.target(**options))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "target_unfit")


def test_it_says_unknown_of_what_is_not_there_or_no_bare_repository(forge: Forge, tmp_path: Path) -> None:
    assert ask(forge.target(remote=str(forge.tree))).problem == "git_failed"
    assert ask(forge.target(remote=str(forge.tree / ".git"))).problem == "not_bare"
    assert ask(forge.target(remote=str(tmp_path / "gone"))).problem == "path_absent"
    assert ask(forge.target(remote=str(tmp_path))).problem == "git_failed"
    assert ask(forge.target(remote="https://127.0.0.1:9/a.git")).problem == "address_refused"


def test_an_empty_repository_proves_absence_and_one_half_destroyed_does_not(
    forge: Forge, tmp_path: Path
) -> None:
    git(tmp_path, "init", "-q", "--bare", str(tmp_path / "empty.git"))
    assert ask(forge.target(remote=str(tmp_path / "empty.git"))).answer is Answer.ABSENT
    forge.push(f"agent/{NAMED}")
    (forge.bare / "HEAD").unlink()
    assert ask(forge.target()).answer is Answer.UNKNOWN


def test_it_runs_nothing_that_a_configuration_or_the_repository_names(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness = tmp_path / "witness"
    evil = tmp_path / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {witness}\nexec cat\n")
    evil.chmod(0o755)
    (tmp_path / ".gitconfig").write_text(
        f'[url "{tmp_path}/elsewhere"]\n insteadOf = {forge.bare}\n[core]\n fsmonitor = {evil}\n'
        f"[uploadpack]\n packObjectsHook = {evil}\n[credential]\n helper = {evil}\n"
    )
    for name in ("post-checkout", "pre-receive", "reference-transaction"):
        (forge.bare / "hooks" / name).write_text(evil.read_text())
        (forge.bare / "hooks" / name).chmod(0o755)
    git(forge.bare, "config", "core.fsmonitor", str(evil))
    git(forge.bare, "config", "core.pager", str(evil))
    git(forge.bare, "config", "gpg.program", str(evil))
    git(forge.bare, "config", "log.showSignature", "true")
    git(forge.bare, "config", "trailer.Operation-Key.command", str(evil))
    forge.commit("second", f"Operation-Key: {OPERATION}")
    forge.push(f"agent/{NAMED}")
    witness.unlink(missing_ok=True)  # pushing ran the hooks, as it should
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.fsmonitor")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(evil))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    assert ask(forge.target()).answer is Answer.PRESENT
    assert ask(forge.target(trailer="Operation-Key", ref=None)).answer is Answer.PRESENT
    assert not witness.exists()


def test_it_ends_git_and_everything_git_started_at_the_deadline(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\nsleep 120 &\necho $! > {tmp_path}/pid\nwait\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    hurry(monkeypatch, 5)  # by then it has started another
    with ends():
        assert ask(forge.target()).problem == "timeout"
    child = int((tmp_path / "pid").read_text())
    assert comes(lambda: _is_gone(child))


def _is_gone(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.fixture
def hosted(forge: Forge) -> Iterator[tuple[Forge, Web]]:
    """The bare repository behind git's own HTTP backend."""
    web = host(forge)
    yield forge, web
    web.close()


def test_it_asks_over_http_without_cloning(hosted: tuple[Forge, Web]) -> None:
    forge, web = hosted
    place = forge.target(remote=f"{web.url}/bare.git", allow="loopback")
    assert ask(place).answer is Answer.ABSENT
    forge.push(f"agent/{NAMED}")
    assert (ask(place).answer, ask(place).version) == (Answer.PRESENT, forge.first[:32])
    assert all("/info/refs" in path or path.endswith("/git-upload-pack") for path in web.paths)
    assert ask(forge.target(remote=f"{web.url}/none.git", allow="loopback")).answer is Answer.UNKNOWN


def test_it_sends_its_secret_from_the_environment_to_the_checked_address(
    hosted: tuple[Forge, Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    forge, web = hosted
    place = forge.target(remote=f"{web.url}/bare.git", allow="loopback", auth_env="FORGE_TOKEN")
    assert ask(place).problem == "secret_missing"
    monkeypatch.setenv("FORGE_TOKEN", "s3cret")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert ask(place).answer is Answer.ABSENT
    assert web.seen[0]["Authorization"].startswith("Basic ")


def test_git_goes_to_the_address_that_was_checked_whatever_the_name_says_later(
    hosted: tuple[Forge, Web], monkeypatch: pytest.MonkeyPatch
) -> None:
    forge, web = hosted
    forge.push(f"agent/{NAMED}")
    port = web.server.server_address[1]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    place = forge.target(remote=f"http://forge.invalid:{port}/bare.git", allow="loopback")
    assert ask(place).answer is Answer.PRESENT
    assert web.seen[-1]["Host"] == f"forge.invalid:{port}"


def test_it_speaks_tls_to_the_name_it_was_given(hosted: tuple[Forge, Web], tmp_path: Path) -> None:
    forge, web = hosted
    certify(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    web.server.socket = context.wrap_socket(web.server.socket, server_side=True)
    forge.push(f"agent/{NAMED}")
    remote = web.url.replace("http:", "https:") + "/bare.git"
    own = {"remote": remote, "allow": "loopback"}
    assert ask(forge.target(**own, ca_file=str(tmp_path / "cert.pem"))).answer is Answer.PRESENT
    assert ask(forge.target(**own)).problem == "git_failed"


def test_it_asks_over_ssh_with_the_given_key_and_nobody_s_settings(
    forge: Forge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transport is git's own; in place of ssh stands a program that runs the command here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/said\nfor last; do :; done\nexec sh -c "$last"\n'
    )
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    forge.push(f"agent/{NAMED}")
    options = {"known_hosts": "/keys/known hosts", "identity_file": "/keys/id", "allow": "loopback"}
    place = forge.target(remote=f"ssh://git@127.0.0.1:2222{forge.bare}", **options)
    assert ask(place).version == forge.first[:32]
    said = (tmp_path / "said").read_text()
    for setting in (
        "-F /dev/null", "HostName=127.0.0.1", "HostKeyAlias=127.0.0.1", "StrictHostKeyChecking=yes",
        "UserKnownHostsFile=\"/keys/known hosts\"", "IdentityFile=\"/keys/id\"", "BatchMode=yes", "-p 2222",
        "git@127.0.0.1",
    ):  # fmt: skip
        assert setting in said, setting


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n"


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/a.git/info/refs\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n",
        HEAD + b"Content-Length: 4000\r\n\r\n001e# service=git-upload-pack\n0000",
        HEAD + b"Content-Length: 34\r\n\r\n001e# service=git-upload-pack\n0000",
        HEAD + b"Content-Length: 12\r\n\r\n\x00\x01\x02zzzzzzzzz",
    ],
)
def test_a_server_that_answers_nothing_of_worth_is_never_an_absence(forge: Forge, said: bytes) -> None:
    with server(says(said)) as port:
        found = ask(forge.target(remote=f"http://127.0.0.1:{port}/a.git", allow="loopback"))
    assert (found.answer, found.problem in {"git_failed", "no_refs"}) == (Answer.UNKNOWN, True)


@pytest.mark.parametrize("talk", [stalls(), stalls(HEAD), drips(HEAD + b"\r\n001e# service")])
def test_a_server_that_stalls_is_left_at_the_deadline(
    forge: Forge, talk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch, 1)
    with server(talk) as port, ends():
        found = ask(forge.target(remote=f"http://127.0.0.1:{port}/a.git", allow="loopback"))
    assert (found.answer, found.problem) == (Answer.UNKNOWN, "timeout")


def test_a_secret_is_shown_by_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORGE_TOKEN", "s3cret")
    place = target(remote="https://127.0.0.1:9/a.git", allow="loopback", auth_env="FORGE_TOKEN")
    remote = git_commands.remote_of(place)
    assert "Basic" in str(remote.config)
    assert "Basic" not in repr(remote)


def test_it_passes_only_a_ref_that_moved_forward(forge: Forge) -> None:
    verifier = GitRefVerifier()
    second = forge.commit("second")
    place = forge.target(ref="refs/heads/main", expected={"done": {"commit": second}})
    assert verifier.baseline(place, "done") == Baseline(forge.first[:32], reachable=True)
    assert check(place, forge.first[:32]).problem == "none_newer"
    forge.push("main")
    passed = check(place, forge.first[:32])
    assert (passed.check, passed.fresh, passed.version) == (Check.PASSED, True, second[:32])
    assert check(place, second[:32]).problem == "none_newer"
    git(forge.tree, "checkout", "-q", "--orphan", "other")
    forge.commit("elsewhere")
    forge.push("main", "--force")
    moved = check(place, second[:32])
    assert (moved.check, moved.problem) == (Check.UNREACHABLE, "version_unordered")


def test_it_names_the_term_that_was_not_met(forge: Forge) -> None:
    tree = git(forge.tree, "rev-parse", "HEAD^{tree}").strip()
    place = forge.target(ref="refs/heads/main", expected={"done": {"tree": "0" * 40}, "tree": {"tree": tree}})
    failed = check(place, None)
    assert (failed.check, failed.problem, failed.difference) == (Check.FAILED, "not_the_expected", ("tree",))
    assert check(place, None, expected="tree").check is Check.PASSED
    assert check(place, None, expected="memo").problem == "target_unfit"
    gone = check(forge.target(ref="refs/heads/none", expected={"done": {"tree": tree}}), None)
    assert (gone.check, gone.problem) == (Check.FAILED, "nothing_there")


def test_it_passes_only_a_commit_of_this_run_where_a_trailer_tells(forge: Forge) -> None:
    place = forge.target(ref="refs/heads/main", trailer="Operation-Key", expected={"done": {}})
    base = GitRefVerifier().baseline(place, "done").version
    forge.commit("theirs", f"Operation-Key: {OTHER}")
    forge.push("main")
    theirs = check(place, base, frozenset({OPERATION}))
    assert (theirs.check, theirs.fresh, theirs.problem) == (Check.FAILED, False, "another_operation")
    assert check(place, base).problem == "another_operation"
    forge.commit("ours", f"Operation-Key: {OPERATION}")
    forge.push("main")
    assert check(place, base, frozenset({OPERATION})).fresh is True


def test_it_passes_only_a_ref_of_this_run_that_was_not_there_before(forge: Forge) -> None:
    place = forge.target(expected={"done": {}})
    verifier, ours = GitRefVerifier(), frozenset({OPERATION})
    assert verifier.baseline(place, "done") == Baseline(None, reachable=True)
    forge.push(f"agent/{OTHER.replace(':', '-')}")
    base = verifier.baseline(place, "done").version
    assert base is not None
    assert len(base) == 32
    assert check(place, base, ours).problem == "nothing_there"
    forge.push(f"agent/{NAMED}")
    assert check(place, base, ours).fresh is True
    assert check(place, base).problem == "nothing_there"
    assert check(place, verifier.baseline(place, "done").version, ours).problem == "none_newer"
    forge.push("agent/unrelated")
    late = check(place, base, ours)
    assert (late.check, late.problem) == (Check.UNREACHABLE, "version_unordered")


def test_an_address_shows_what_is_newer_only_where_it_moves_forward(hosted: tuple[Forge, Web]) -> None:
    forge, web = hosted
    second = forge.commit("second")
    forge.push("main")
    options = {
        "remote": f"{web.url}/bare.git",
        "allow": "loopback",
        "ref": "refs/heads/main",
        "expected": {"done": {"commit": second}, "tree": {"tree": second}},
    }
    assert check(forge.target(**options), forge.first[:32]).problem == "version_unordered"
    assert check(forge.target(**options, moves="forward"), forge.first[:32]).fresh is True
    assert check(forge.target(**options), None, expected="tree").problem == "target_unfit"
    web.close()
    gone = check(forge.target(**options), None)
    assert (gone.check, gone.problem) == (Check.UNREACHABLE, "git_failed")
    assert GitRefVerifier().baseline(forge.target(**options), "done").reachable is False


def test_it_lists_every_ref_that_arrived_with_its_key_or_none(forge: Forge) -> None:
    destination = GitRefDestination()
    assert destination.arrivals(forge.target(), NOW) == []
    assert destination.lists(forge.target())
    assert not destination.lists(forge.target(ref="refs/heads/main"))
    forge.push(f"agent/{NAMED}")
    forge.push(f"agent/{MARKER}")
    listed = destination.arrivals(forge.target(), NOW)
    assert listed is not None
    assert sorted(str(each.operation_key) for each in listed) == ["None", OPERATION]
    assert Arrival(KEY.digest("ref", f"refs/heads/agent/{NAMED}"), OPERATION) in listed
    assert MARKER not in repr(listed)
    assert destination.arrivals(forge.target(remote="/nowhere"), NOW) is None
    assert destination.arrivals(forge.target(ref="refs/heads/main"), NOW) is None


def test_it_lists_the_commits_with_a_trailer_since_a_moment(forge: Forge) -> None:
    forge.commit("second", f"Operation-Key: {OPERATION}")
    forge.commit("third", f"Operation-Key: {MARKER}")
    forge.push("main")
    place = forge.target(trailer="Operation-Key", ref=None)
    listed = GitRefDestination().arrivals(place, NOW - timedelta(days=365))
    assert listed is not None
    assert sorted(str(each.operation_key) for each in listed) == ["None", OPERATION]
    assert MARKER not in repr(listed)
    assert GitRefDestination().arrivals(place, NOW + timedelta(days=36500)) == []
