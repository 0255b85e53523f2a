"""A git repository, asked for the ref or the commit that an operation made; nothing is cloned.

Options of a destination: `remote`, the path of a bare repository, or an `https://` or `ssh://` address;
`ref`, a full name with `{operation_key}` (a colon of the key written as a hyphen); or, for a path only,
`trailer`, the commit trailer that carries the key as it is, looked for in everything below `below`
("refs/heads/"); `payload` and `fields` as http_json has them, over `commit`, `ref` and, for a path, `tree`;
`allow`; `auth_env`, `auth_user` and `ca_file` for https; `known_hosts` and `identity_file` for ssh.

Options of a verifier: `remote` and its like; `ref`, with or without the key; `expected` (expected outcome
-> {`commit` or, for a path, `tree`: object id}, empty where only a newer commit is expected); `trailer`;
`moves` ("forward" where the remote refuses everything else: an address does not show which commit is newer).
"""

from datetime import UTC, datetime

from branches.evidence.domains import CONTENT, REF
from branches.ports import Answer, Arrival, Baseline, DestinationAnswer, OutcomeCheck, Question, Target
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations import git_outcome
from debugger.adapters.destinations.git_commands import Remote, remote_of
from debugger.adapters.destinations.git_reading import (
    carriers,
    ref_name,
    refs_of,
    shown_of,
    the_ref,
    version_of,
)
from debugger.adapters.destinations.keys_in_names import PLACE, Template, key_of
from debugger.adapters.destinations.rebuilt import found
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable


class GitRefDestination:
    """Asks a repository for the ref, or the commit, that carries an operation's key."""

    limits = (
        "A ref that the remote hides, or that was deleted or moved away since, looks as if it never was, and"
        " what the commit holds is compared only by its ids."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what the repository shows now; whatever proves nothing is `unknown`."""
        return answer_of(lambda: _answer(target, question))

    def lists(self, target: Target) -> bool:
        """Whether the operations' refs or trailers tell them apart."""
        return "trailer" in target.options or PLACE in str(target.options.get("ref"))

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return every ref where the operations' refs stand, or every commit since a moment by its own clock.

        A ref does not say when it was made, so that all of them are returned, without a time.
        """
        try:
            remote = remote_of(target)
            if "trailer" in target.options:
                return _commits(target, remote, since)
            return _refs(target, remote)
        except (Unreachable, TargetUnfit):
            return None


class GitRefVerifier:
    """Asks a repository whether a ref moved on since the baseline, to what was expected."""

    limits = "It proves which commit the ref names, not that the commit's content is right or was ever built."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return where the ref stands, or a word for all refs of its form where it carries the key."""
        del expected
        return baseline_of(lambda: git_outcome.baseline(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer commit, of this run where the target can tell."""
        return check_of(lambda: git_outcome.checked(target, expected, baseline_version, operation_keys))


def _answer(target: Target, question: Question) -> DestinationAnswer:
    remote = remote_of(target)
    if "trailer" in target.options:
        commits = carriers(target, remote, question.operation_key)
        if len(commits) > 1:
            raise Unreachable("ambiguous")
        name, commit = "", commits[0].commit if commits else None
    else:
        name = ref_name(Template.of(target, "ref", needs_key=True).filled(question.operation_key))
        commit = the_ref(remote, name)
    if commit is None:
        return DestinationAnswer(Answer.ABSENT)
    return found(
        target,
        question,
        shown_of(remote, name, commit),
        content=target.key.digest(CONTENT, f"git\0{commit}"),
        version=version_of(commit),
        ref=target.key.digest(REF, name or commit),
    )


def _refs(target: Target, remote: Remote) -> list[Arrival]:
    template = Template.of(target, "ref", needs_key=True)
    return [
        Arrival(target.key.digest(REF, name.encode("utf-8", "surrogateescape")), template.key_in(name))
        for name in sorted(refs_of(remote, template))
    ]


def _commits(target: Target, remote: Remote, since: datetime) -> list[Arrival]:
    return [
        Arrival(target.key.digest(REF, each.commit), key_of(each.key), datetime.fromtimestamp(each.at, UTC))
        for each in carriers(target, remote, None)
        if each.at >= since.timestamp()
    ]
