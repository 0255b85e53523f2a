"""Reads refs, commits and trailers out of a repository; object ids are all that leaves it."""

import re
from typing import Any, Final, NamedTuple

from branches.evidence.domains import STATE
from branches.ports import Target
from debugger.adapters.destinations.connections import MOST_LIST_BYTES
from debugger.adapters.destinations.git_commands import Remote
from debugger.adapters.destinations.keys_in_names import Template
from debugger.adapters.destinations.rebuilt import plain_json, word_of
from debugger.adapters.options import TargetUnfit, text, text_or
from debugger.adapters.outbound import MOST_BYTES, Unreachable

_NAME: Final = re.compile(r"refs(?:/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+")
_BELOW: Final = re.compile(r"refs/(?:[A-Za-z0-9_+-][A-Za-z0-9._+-]*/)*")
_TRAILER: Final = re.compile("[A-Za-z][A-Za-z0-9-]{0,63}")
_MOST_COMMITS: Final = 5000
_VERSION_DIGITS: Final = 32


class Carrier(NamedTuple):
    """A commit, the value of its trailer, and the committer's time in seconds since 1970."""

    commit: str
    key: str
    at: int


def version_of(commit: str) -> str:
    """Return the part of an object id that fits a version: its first 32 digits, which name it too."""
    return commit[:_VERSION_DIGITS]


def ref_name(name: str) -> str:
    """Return a name that is a full ref's. Raises TargetUnfit."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith((".", ".lock")):
        raise TargetUnfit("ref", "full_name")
    return name


def the_ref(remote: Remote, name: str) -> str | None:
    """Return the commit that a ref names, or None where the repository answers and does not have it."""
    shown = remote.refs("HEAD", name, f"{name}^{{}}", most=MOST_BYTES)
    if not shown and not remote.is_local:
        # An address that shows no ref at all may as well be no repository.
        raise Unreachable("no_refs")
    return shown.get(f"{name}^{{}}") or shown.get(name)


def refs_of(remote: Remote, template: Template) -> dict[str, str]:
    """Return all refs whose name begins as the template's does: name -> object id."""
    if not _BELOW.match(template.before):
        raise TargetUnfit("ref", "full_name")
    shown = remote.refs("HEAD", f"{template.before}*", most=MOST_LIST_BYTES)
    if not shown and not remote.is_local:
        raise Unreachable("no_refs")
    return {
        name: commit
        for name, commit in shown.items()
        if name.startswith(template.before) and not name.endswith("^{}")
    }


def shown_of(remote: Remote, name: str, commit: str) -> dict[str, Any]:
    """Return what a payload can be rebuilt from."""
    shown: dict[str, Any] = {"commit": commit, "ref": name}
    if remote.is_local:
        shown["tree"] = tree_of(remote, commit)
    return shown


def tree_of(remote: Remote, commit: str) -> str:
    """Return the id of a commit's tree in a local repository."""
    return remote.inside("rev-parse", "--verify", f"{commit}^{{tree}}", most=MOST_BYTES).decode().strip()


def is_forward(remote: Remote, base: str, commit: str) -> bool:
    """Whether a commit (by the beginning of its id) is part of another's history, in a local repository."""
    return remote.inside("rev-list", "--count", f"{commit}..{base}", most=MOST_BYTES) == b"0\n"


def carriers(
    target: Target, remote: Remote, operation_key: str | None, since: str | None = None
) -> list[Carrier]:
    """Return the commits with the declared trailer: those of one key, or all.

    They are looked for in everything below the declared prefix, or between two commits (`a..b`).
    """
    trailer, below = text(target, "trailer"), text_or(target, "below", "refs/heads/")
    if not remote.is_local or not _TRAILER.fullmatch(trailer):
        raise TargetUnfit("trailer", "path_and_name")
    if not _BELOW.fullmatch(below):
        raise TargetUnfit("below", "prefix")
    if remote.inside("rev-parse", "--is-shallow-repository", most=64) != b"false\n":
        raise Unreachable("shallow")
    printed = remote.inside(
        "rev-list",
        "--no-commit-header",
        f"--max-count={_MOST_COMMITS + 1}",
        f"--format=%H%x00%ct%x00%(trailers:key={trailer},valueonly,unfold,separator=%x01)",
        "--fixed-strings",
        f"--grep={trailer if operation_key is None else operation_key}",
        *((f"--glob={below}*",) if since is None else (since,)),
        most=MOST_LIST_BYTES,
    )
    lines = printed.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) > _MOST_COMMITS:
        raise Unreachable("too_many")
    found = [each for line in lines if line for each in _carriers_in(line)]
    return [each for each in found if operation_key is None or each.key == operation_key]


def _carriers_in(line: str) -> list[Carrier]:
    commit, at, values = line.split("\0", 2)
    return [Carrier(commit, each, int(at)) for each in sorted(set(values.split("\x01"))) if each]


def word_of_refs(target: Target, shown: dict[str, str]) -> str:
    """Return a word for a set of refs, which changes with every one that comes, moves or goes."""
    return word_of(target, STATE, b"refs\0" + plain_json(shown))
