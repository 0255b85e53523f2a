"""Whether an artifact is newer than the baseline and as expected; the terms are the caller's."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from branches.evidence.domains import CONTENT
from branches.evidence.versions import is_newer
from branches.ports import Check, OutcomeCheck, Target
from debugger.adapters.destinations import stores
from debugger.adapters.destinations.outcomes import NOTHING, judged, wanted_of
from debugger.adapters.destinations.rebuilt import word_of
from debugger.adapters.destinations.stores import Seen
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable

type Terms = Callable[[Target, Seen, Mapping[str, Any]], list[str]]
_WORD_DIGITS: Final = 8


def content_of(target: Target, seen: Seen) -> str:
    """Return the digest of an artifact's content."""
    return target.key.digest(CONTENT, f"file\0{seen.artifact.sha256}")


def baseline(target: Target) -> str | None:
    """Return when the artifact was written and a word for its content, or the place's time now."""
    template = stores.template_of(target)
    if template.has_key:
        return stores.clock(target, template)
    seen = stores.look(target, template.before)
    return None if seen is None else _version(target, seen)


def checked(
    target: Target,
    expected: str,
    base: str | None,
    operation_keys: frozenset[str],
    known: frozenset[str],
    terms: Terms,
) -> OutcomeCheck:
    """Return what the artifact is worth by the terms. Raises Unreachable and TargetUnfit."""
    wanted = wanted_of(target, expected)
    if not wanted or not wanted.keys() <= known:
        raise TargetUnfit("expected", "declared")
    template = stores.template_of(target)
    if template.has_key:
        found = stores.of_keys(target, template, operation_keys)
        seen = found[0] if found else None
    else:
        seen = stores.look(target, template.before)
    if seen is None:
        return NOTHING
    version, artifact = _version(target, seen), content_of(target, seen)
    problem = None if base is None else _staleness(version, base)
    if problem is not None:
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem=problem)
    return judged(terms(target, seen, wanted), artifact=artifact, version=version)


def _version(target: Target, seen: Seen) -> str:
    if not seen.artifact.at:
        raise Unreachable("version_unreadable")
    return f"{seen.artifact.at}-{word_of(target, CONTENT, seen.artifact.sha256)[:_WORD_DIGITS]}"


def _staleness(version: str, base: str) -> str | None:
    """Return why an artifact is not newer, or None where it is.

    The same content written again is what was there before: a deterministic loop could go on for ever.
    """
    at, _, word = version.partition("-")
    base_at, _, base_word = base.partition("-")
    if word == base_word:
        return "same_content"
    if at == base_at:
        return None if base_word else "none_newer"
    newer = is_newer(at, base_at)
    if newer is None:
        raise Unreachable("version_unordered")
    return None if newer else "none_newer"
