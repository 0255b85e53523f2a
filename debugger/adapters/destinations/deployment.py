"""A deployment, asked at its version route, its health route and the route that its users see.

Options of a destination: `version_url`, JSON, with `{operation_key}` where each deployment has an address of
its own; `operation_key` (selector of the key it was deployed under); `payload` and `fields` as http_json has
them, over the version route's answer; `version` and `ref` (selectors); `user_url` and `user_version`
(selector; the users' route must show the same version); `found`, `absent`, `auth_env`, `allow`. The answer
must be tied to the operation: by the address, by the key or by the payload.

Options of a verifier: `version_url`, `version`, `operation_key`; `expected` (expected outcome -> {selector:
value} at the version route); `health_url`, `healthy` (statuses, [200]), `health_expected` ({selector:
value}); `user_url`, `user_found` (statuses, [200]), `user_shows_version` (true: the page holds the version).
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from branches.evidence.domains import NAME
from branches.evidence.versions import is_newer
from branches.ports import Answer, Baseline, Check, DestinationAnswer, OutcomeCheck, Question, Target
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations.json_answer import ask, page_of, parsed, select, version_at
from debugger.adapters.destinations.keys_in_names import PLACE, key_of
from debugger.adapters.destinations.outcomes import (
    NOTHING,
    differing,
    equal,
    is_of_another,
    judged,
    wanted_of,
)
from debugger.adapters.destinations.rebuilt import content_of, found, ref_at, word_of
from debugger.adapters.options import TargetUnfit, statuses, table, text
from debugger.adapters.outbound import Unreachable


class DeploymentDestination:
    """Asks whether what an operation deployed is what stands there."""

    limits = (
        "It sees what stands there now: a deployment that another one followed is unknown, not absent, and a"
        " version route may say what is not running."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what stands there now; another deployment's version proves nothing of this one."""
        return answer_of(lambda: _answer(target, question))


class DeploymentVerifier:
    """Looks whether a newer deployment stands there, is healthy, and is what its users see."""

    limits = "It proves that the routes answered so once, from here, not that they do everywhere or stay so."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the version that stands there now."""
        del expected
        return baseline_of(lambda: _standing(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer deployment that is healthy and shown to its users."""
        return check_of(lambda: _checked(target, expected, baseline_version, operation_keys))


def _answer(target: Target, question: Question) -> DestinationAnswer:
    template = text(target, "version_url")
    has_address, has_key = PLACE in template, "operation_key" in target.options
    if not (has_address or has_key or "payload" in target.options):
        raise TargetUnfit("version_url", "operation_key")
    answer = ask(target, template.replace(PLACE, quote(question.operation_key, safe="")))
    if answer is None:
        if not has_address:
            raise Unreachable("nothing_deployed")
        return DestinationAnswer(Answer.ABSENT)
    if has_key and key_of(select(answer.value, text(target, "operation_key"))) != question.operation_key:
        raise Unreachable("another_version")
    _check_routes(target, answer.value)
    shown = found(
        target,
        question,
        answer.value,
        content=content_of(target, answer.value),
        version=_version(target, answer.value) if "version" in target.options else None,
        ref=ref_at(target, answer.value),
    )
    if not (has_address or has_key) and (question.payload is None or shown.fingerprint != question.payload):
        # Of the operation nothing is known but what it deployed, and that is not what stands there.
        raise Unreachable("another_version")
    return shown


def _check_routes(target: Target, value: Any) -> None:
    """Raise Unreachable where the users' route shows another version than the version route."""
    if "user_url" not in target.options:
        return
    users = ask(target, text(target, "user_url"))
    shown = None if users is None else select(users.value, text(target, "user_version"))
    if not equal(select(value, text(target, "version")), shown):
        raise Unreachable("routes_disagree")


def _version(target: Target, value: Any) -> str | None:
    """Return the version, or a word for one that is longer than a version may be."""
    selector = text(target, "version")
    shown = select(value, selector)
    if isinstance(shown, str) and shown and version_at(value, selector) is None:
        return word_of(target, NAME, shown.encode("utf-8", "surrogatepass"))
    return version_at(value, selector)


def _standing(target: Target) -> str | None:
    answer = ask(target, text(target, "version_url"))
    if answer is None:
        return None
    version = _version(target, answer.value)
    if version is None:
        raise Unreachable("version_unreadable")
    return version


def _checked(
    target: Target, expected: str, baseline: str | None, operation_keys: frozenset[str]
) -> OutcomeCheck:
    wanted = wanted_of(target, expected)
    if not wanted and "operation_key" not in target.options:
        raise TargetUnfit("expected", "declared")
    answer = ask(target, text(target, "version_url"))
    if answer is None:
        return NOTHING
    value, version = answer.value, _version(target, answer.value)
    if version is None:
        raise Unreachable("version_unreadable")
    artifact = content_of(target, value)
    if is_of_another(target, value, operation_keys):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="another_operation")
    if baseline is not None and not _is_newer(target, version, baseline):
        return OutcomeCheck(Check.FAILED, artifact=artifact, version=version, problem="none_newer")
    words = [*_health(target), *_users(target, value)]
    differs = [*words, *differing(target, value, wanted)]
    return judged(differs, artifact=artifact, version=version)


def _is_newer(target: Target, version: str, baseline: str) -> bool:
    """Whether a version came after the baseline; one without order where it carries the run's own key."""
    if version == baseline:
        return False
    newer = is_newer(version, baseline)
    if newer is None and "operation_key" not in target.options:
        raise Unreachable("version_unordered")
    return newer is None or newer


def _health(target: Target) -> list[str]:
    """Return the word `health` where the health route says anything but what it should."""
    if "health_url" not in target.options:
        return []
    page = page_of(target, text(target, "health_url"))
    if page.status not in statuses(target, "healthy", (200,)):
        return ["health"]
    wanted: Mapping[str, Any] = table(target, "health_expected")
    shown = parsed(page.body) if wanted else None
    return [] if all(equal(select(shown, path), each) for path, each in wanted.items()) else ["health"]


def _users(target: Target, value: Any) -> list[str]:
    """Return the word `user_facing` where the users' route does not answer, or not with this version."""
    if "user_url" not in target.options:
        return []
    page = page_of(target, text(target, "user_url"))
    is_shown = page.status in statuses(target, "user_found", (200,))
    shows_version = target.options.get("user_shows_version", False)
    if not isinstance(shows_version, bool):
        raise TargetUnfit("user_shows_version", "bool")
    if shows_version:
        version = str(select(value, text(target, "version"))).encode("utf-8", "surrogatepass")
        is_shown = is_shown and version in page.body
    return [] if is_shown else ["user_facing"]
