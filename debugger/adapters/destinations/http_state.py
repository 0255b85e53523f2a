"""The state of a resource over HTTP: its status, and values in its JSON; compared with what it was before.

Options: `url`; `expected` (expected outcome -> {`status`: list, [200]; `values`: {selector: value}});
`version` (selector: with it a newer one must have come, else the state must be another than at the baseline);
`operation_key` (selector of the key under which the state came about); `auth_env`, `allow`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.domains import STATE
from branches.ports import Baseline, Check, JsonValue, OutcomeCheck, Target
from debugger.adapters.answers import baseline_of, check_of
from debugger.adapters.destinations.json_answer import ABSENT, page_of, parsed, problem_of, select, version_at
from debugger.adapters.destinations.outcomes import differing, is_of_another, judged, needs_newer, wanted_of
from debugger.adapters.destinations.rebuilt import content_of, plain_json, word_of
from debugger.adapters.options import TargetUnfit, statuses, table, text
from debugger.adapters.outbound import Unreachable

_TERMS: Final = frozenset({"status", "values"})
_READ: Final = frozenset({"version", "operation_key"})
_SILENT: Final = frozenset({401, 403, 407, 408, 425, 429})


@dataclass(frozen=True, slots=True)
class _State:
    status: int
    value: Any
    version: str | None


class HttpStateVerifier:
    """Looks whether a resource is in the expected state, and was not before the run resumed."""

    limits = (
        "It proves the state at one moment: one that came and went is not seen, and one by somebody"
        " else looks alike."
    )

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the version, or a word for the state in the expected terms."""
        return baseline_of(lambda: _state(target, *_wanted(target, expected)).version)

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for an expected state that the baseline did not have."""
        return check_of(lambda: _checked(target, expected, baseline_version, operation_keys))


def _wanted(target: Target, expected: str) -> tuple[frozenset[int], Mapping[str, Any]]:
    """Return the expected statuses and values. Raises TargetUnfit."""
    terms = wanted_of(target, expected)
    if not terms or not terms.keys() <= _TERMS:
        raise TargetUnfit("expected", "declared")
    own = Target(target.name, terms, target.key)
    return statuses(own, "status", (200,)), table(own, "values")


def _state(target: Target, expected: frozenset[int], values: Mapping[str, Any]) -> _State:
    """Return the state as it is now. Raises Unreachable for a status that says nothing of the resource."""
    page = page_of(target, text(target, "url"))
    says_nothing = page.status >= 500 or 300 <= page.status < 400 or page.status in _SILENT
    if says_nothing and page.status not in expected:
        raise Unreachable(problem_of(page.status))
    is_read = bool(values) or not target.options.keys().isdisjoint(_READ)
    value = parsed(page.body) if page.status in expected and is_read else ABSENT
    return _State(page.status, value, _version(target, page.status, value, values))


def _version(target: Target, status: int, value: Any, values: Mapping[str, Any]) -> str | None:
    """Return the declared version, None where there is nothing that has one; else a word for the state."""
    if "version" in target.options:
        if value is ABSENT:
            return None
        version = version_at(value, text(target, "version"))
        if version is None:
            raise Unreachable("version_unreadable")
        return version
    shown = {path: select(value, path) for path in values}
    known: dict[str, JsonValue] = {path: each for path, each in shown.items() if each is not ABSENT}
    return word_of(target, STATE, b"http\0" + plain_json([status, known]))


def _checked(
    target: Target, expected: str, baseline: str | None, operation_keys: frozenset[str]
) -> OutcomeCheck:
    wanted, values = _wanted(target, expected)
    state = _state(target, wanted, values)
    version = state.version
    artifact = content_of(target, [state.status, None if state.value is ABSENT else state.value])
    if state.status not in wanted:
        return judged(["status"], artifact=artifact, version=version)
    if _is_stale(target, version, baseline):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="none_newer")
    if is_of_another(target, state.value, operation_keys):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="another_operation")
    return judged(differing(target, state.value, values), artifact=artifact, version=version)


def _is_stale(target: Target, version: str | None, baseline: str | None) -> bool:
    if version is None or baseline is None:
        return False
    if "version" in target.options:
        return not needs_newer(version, baseline)
    return version == baseline
