"""Whether a repository moved on since a baseline, to what was expected, and by the run in question."""

from collections.abc import Mapping
from typing import Any, Final

from branches.evidence.domains import CONTENT
from branches.ports import Check, OutcomeCheck, Target
from debugger.adapters.destinations.git_commands import Remote, remote_of
from debugger.adapters.destinations.git_reading import (
    carriers,
    is_forward,
    ref_name,
    refs_of,
    the_ref,
    tree_of,
    version_of,
    word_of_refs,
)
from debugger.adapters.destinations.keys_in_names import Template
from debugger.adapters.destinations.outcomes import NOTHING, judged, wanted_of
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable

_TERMS: Final = frozenset({"commit", "tree"})


def baseline(target: Target) -> str | None:
    """Return where the ref stands, or a word for all refs that stand where the run's own will."""
    remote, template = remote_of(target), Template.of(target, "ref")
    if template.has_key:
        shown = refs_of(remote, template)
        return word_of_refs(target, shown) if shown else None
    commit = the_ref(remote, ref_name(template.before))
    return None if commit is None else version_of(commit)


def checked(target: Target, expected: str, base: str | None, operation_keys: frozenset[str]) -> OutcomeCheck:
    """Return what the ref is worth. Raises Unreachable and TargetUnfit."""
    wanted, template = wanted_of(target, expected), Template.of(target, "ref")
    is_tied = template.has_key or "trailer" in target.options
    if not wanted.keys() <= _TERMS or not (wanted or is_tied):
        raise TargetUnfit("expected", "declared")
    remote = remote_of(target)
    if "tree" in wanted and not remote.is_local:
        raise TargetUnfit("expected", "path")
    if template.has_key:
        return _keyed(target, remote, template, wanted, base, operation_keys)
    commit = the_ref(remote, ref_name(template.before))
    if commit is None:
        return NOTHING
    if base is not None and not _is_newer(target, remote, base, commit):
        return _failed(target, commit, "none_newer")
    if "trailer" in target.options and not _is_ours(target, remote, base, commit, operation_keys):
        return _failed(target, commit, "another_operation")
    return _judged(target, remote, wanted, commit)


def _keyed(
    target: Target,
    remote: Remote,
    template: Template,
    wanted: Mapping[str, Any],
    base: str | None,
    operation_keys: frozenset[str],
) -> OutcomeCheck:
    """Judge the refs that carry a key of the run: those that were not there at the baseline."""
    shown = refs_of(remote, template)
    ours = {name: commit for name, commit in shown.items() if template.key_in(name) in operation_keys}
    if not ours:
        return NOTHING
    names = _new(target, shown, sorted(ours), base)
    if not names:
        return _failed(target, min(ours.values()), "none_newer")
    judged_refs = [_judged(target, remote, wanted, ours[name]) for name in names]
    passed = (each for each in judged_refs if each.check is Check.PASSED)
    return next(passed, judged_refs[0])


def _new(target: Target, shown: dict[str, str], ours: list[str], base: str | None) -> list[str]:
    """Return which of ours the baseline did not have: without them all is as it was then."""
    if base is None:
        return ours
    if word_of_refs(target, shown) == base:
        return []
    for names in (ours, *([name] for name in ours)):
        before = {name: commit for name, commit in shown.items() if name not in names}
        if before and word_of_refs(target, before) == base:
            return names
    raise Unreachable("version_unordered")


def _is_newer(target: Target, remote: Remote, base: str, commit: str) -> bool:
    if version_of(commit) == base:
        return False
    moved = is_forward(remote, base, commit) if remote.is_local else target.options.get("moves") == "forward"
    if not moved:
        raise Unreachable("version_unordered")
    return True


def _is_ours(
    target: Target, remote: Remote, base: str | None, commit: str, operation_keys: frozenset[str]
) -> bool:
    """Whether a commit since the baseline carries a key of the run in its trailer."""
    since = commit if base is None else f"{base}..{commit}"
    return any(each.key in operation_keys for each in carriers(target, remote, None, since))


def _judged(target: Target, remote: Remote, wanted: Mapping[str, Any], commit: str) -> OutcomeCheck:
    found = {"commit": commit}
    if "tree" in wanted:
        found["tree"] = tree_of(remote, commit)
    differs = sorted(term for term, each in wanted.items() if found[term] != each)
    return judged(differs, artifact=_artifact(target, commit), version=version_of(commit))


def _failed(target: Target, commit: str, problem: str) -> OutcomeCheck:
    return OutcomeCheck(
        Check.FAILED, artifact=_artifact(target, commit), version=version_of(commit), problem=problem
    )


def _artifact(target: Target, commit: str) -> str:
    return target.key.digest(CONTENT, f"git\0{commit}")
