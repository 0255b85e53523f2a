"""Compares what a destination shows as its newest with what was expected of a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from branches.evidence.versions import is_newer
from branches.ports import Check, OutcomeCheck, Target
from debugger.adapters.destinations.json_answer import ABSENT, select, version_at
from debugger.adapters.destinations.keys_in_names import key_of
from debugger.adapters.destinations.rebuilt import content_of, name_of
from debugger.adapters.options import TargetUnfit, table, text, texts
from debugger.adapters.outbound import Unreachable

NOTHING: Final = OutcomeCheck(Check.FAILED, problem="nothing_there")
type Order = Callable[[str, str], bool | None]


def wanted_of(target: Target, expected: str) -> Mapping[str, Any]:
    """Return the declared terms of an expected outcome. Raises TargetUnfit."""
    wanted = table(target, "expected").get(expected)
    if not isinstance(wanted, Mapping):
        raise TargetUnfit("expected", "declared")
    return wanted


def needs_newer(version: str, baseline: str | None, order: Order = is_newer) -> bool:
    """Whether a version came after the baseline. Raises Unreachable where that cannot be told."""
    newer = True if baseline is None else order(version, baseline)
    if newer is None:
        raise Unreachable("version_unordered")
    return newer


def newest_of_ours(target: Target, shown: Sequence[Any], operation_keys: frozenset[str]) -> Any:
    """Return the first of several, newest first, that carries one of the run's keys; else the very first."""
    ours = (each for each in shown if not is_of_another(target, each, operation_keys))
    return next(ours, shown[0])


def is_of_another(target: Target, value: Any, operation_keys: frozenset[str]) -> bool:
    """Whether the target says how an artifact carries its key, and this one carries none of the run's."""
    if "operation_key" not in target.options:
        return False
    return key_of(select(value, text(target, "operation_key"))) not in operation_keys


def outcome(
    target: Target,
    value: Any,
    wanted: Mapping[str, Any],
    baseline: str | None,
    operation_keys: frozenset[str],
) -> OutcomeCheck:
    """Return passed and fresh only for a newer artifact of this run that fits. Raises Unreachable."""
    if not wanted:
        raise TargetUnfit("expected", "declared")
    version = version_at(value, text(target, "version"))
    if version is None:
        raise Unreachable("version_unreadable")
    newer = needs_newer(version, baseline)
    artifact = _artifact(target, value)
    if not newer:
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="none_newer")
    if is_of_another(target, value, operation_keys):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="another_operation")
    differs = differing(target, value, wanted)
    return judged(differs, artifact=artifact, version=version)


def judged(
    difference: Sequence[str], *, artifact: str | None, version: str | None, problem: str = "not_the_expected"
) -> OutcomeCheck:
    """Return what a fresh artifact is worth: passed where no term differs."""
    if difference:
        return OutcomeCheck(
            Check.FAILED,
            artifact=artifact,
            version=version,
            problem=problem,
            difference=tuple(difference),
        )
    return OutcomeCheck(Check.PASSED, fresh=True, artifact=artifact, version=version)


def differing(target: Target, value: Any, wanted: Mapping[str, Any]) -> list[str]:
    """Return the HMACs of the selectors whose value is not the wanted one, sorted."""
    paths = [path for path, each in wanted.items() if not equal(select(value, path), each)]
    return sorted(name_of(target, path) for path in paths)


def equal(shown: Any, wanted: Any) -> bool:
    """Compare as JSON does: true is not 1."""
    return shown is not ABSENT and type(shown) is type(wanted) and shown == wanted


def _artifact(target: Target, value: Any) -> str:
    """Return the artifact's digest over the declared fields, or over the whole answer."""
    if "artifact" not in target.options:
        return content_of(target, value)
    paths = texts(target.options["artifact"], "artifact")
    parts = {path: select(value, path) for path in paths}
    if ABSENT in parts.values():
        raise Unreachable("field_missing")
    return content_of(target, parts)
