"""A destination that answers in JSON over HTTP, asked as its target declares; nothing of an answer is kept.

Options of a destination: `url` with `{operation_key}` (or `{operation_label}`, 43 characters made of it);
`found` (statuses, [200]); `absent` (statuses that prove that nothing is there, none unless named);
`payload`, the tool's arguments in which two calls differ: a list of names, or an object of such lists by
tool; `fields` (argument -> selector, the argument's own name unless given); `version` and `ref`
(selectors); `operation_key` (selector of the key that the answer must carry); `items` (selector of a list
in which at most one thing may stand); `empty` ("absent" where an empty list proves that nothing is there);
`list` (what arrived at all, see `json_list`); `auth_env` (a bearer token's environment variable); `allow`.

Options of a verifier: `latest_url`; `items` (selector of a list, newest first); `version` (selector);
`expected` (expected outcome -> {selector: value}); `artifact` (selectors of what the artifact is);
`operation_key` (selector of the key under which it was made); `found`, `absent`, `auth_env`, `allow`.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from branches.ports import Answer, Arrival, Baseline, DestinationAnswer, OutcomeCheck, Question, Target
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations import json_list
from debugger.adapters.destinations.json_answer import ask, select, version_at
from debugger.adapters.destinations.keys_in_names import LABEL, PLACE, key_of, label_of
from debugger.adapters.destinations.outcomes import NOTHING, newest_of_ours, outcome, wanted_of
from debugger.adapters.destinations.rebuilt import content_of, found, ref_at
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable


class HttpJsonDestination:
    """Asks whether an operation happened, by the key under which it was sent."""

    limits = (
        "Only the declared fields are compared, and absence rests on the status or the empty list that the"
        " target declares to mean it; what was made and taken away since looks as if it never was."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what the destination says now; whatever proves nothing is `unknown`."""
        return answer_of(lambda: _answer(target, question))

    def lists(self, target: Target) -> bool:
        """Whether the target says how everything is listed."""
        return "list" in target.options

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return what the declared list shows since a moment; None where it does not show all of it."""
        return json_list.arrivals(target, since)


class HttpJsonVerifier:
    """Asks for the newest artifact, and whether it is the expected one and newer than the baseline."""

    limits = "It proves what the answer shows in the declared fields, not that what it speaks of is so."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the newest version there is, of whatever sort: what comes later has a higher one."""
        del expected
        return baseline_of(lambda: _version(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer artifact that fits; failed where there is none."""
        return check_of(lambda: _checked(target, expected, baseline_version, operation_keys))


def _answer(target: Target, question: Question) -> DestinationAnswer:
    answer = ask(target, _address(target, question.operation_key))
    if answer is None:
        return DestinationAnswer(Answer.ABSENT)
    value = answer.value
    if "items" in target.options:
        shown = _items(target, value)
        # A filter that the place ignores shows everything: then neither one nor none of it means a thing.
        if not all(_carries(target, each, question.operation_key) for each in shown):
            raise Unreachable("another_key")
        if len(shown) > 1:
            raise Unreachable("ambiguous")
        if not shown:
            return _empty(target)
        value = shown[0]
    elif not _carries(target, value, question.operation_key):
        raise Unreachable("another_key")
    return found(
        target,
        question,
        value,
        content=content_of(target, value),
        version=version_at(value, text(target, "version") if "version" in target.options else None),
        ref=ref_at(target, value),
    )


def _address(target: Target, operation_key: str) -> str:
    template = text(target, "url")
    if PLACE not in template and LABEL not in template:
        raise TargetUnfit("url", "operation_key")
    return template.replace(PLACE, quote(operation_key, safe="")).replace(LABEL, label_of(operation_key))


def _carries(target: Target, value: Any, operation_key: str) -> bool:
    """Whether a thing carries the key, where the target says how; true where it does not say."""
    if "operation_key" not in target.options:
        return True
    return key_of(select(value, text(target, "operation_key"))) == operation_key


def _items(target: Target, value: Any) -> Sequence[Any]:
    shown = select(value, text(target, "items"))
    if not isinstance(shown, list):
        raise Unreachable("items_missing")
    return shown


def _empty(target: Target) -> DestinationAnswer:
    if target.options.get("empty") != "absent":
        raise Unreachable("not_found")
    return DestinationAnswer(Answer.ABSENT)


def _newest(target: Target) -> Sequence[Any]:
    """Return what the place shows, newest first, and nothing where it has nothing."""
    answer = ask(target, text(target, "latest_url"))
    if answer is None:
        return ()
    return _items(target, answer.value) if "items" in target.options else (answer.value,)


def _version(target: Target) -> str | None:
    shown = _newest(target)
    if not shown:
        return None
    version = version_at(shown[0], text(target, "version"))
    if version is None:
        raise Unreachable("version_unreadable")
    return version


def _checked(
    target: Target, expected: str, baseline: str | None, operation_keys: frozenset[str]
) -> OutcomeCheck:
    wanted = wanted_of(target, expected)
    if not wanted:
        raise TargetUnfit("expected", "declared")
    shown = _newest(target)
    if not shown:
        return NOTHING
    value = newest_of_ours(target, shown, operation_keys)
    return outcome(target, value, wanted, baseline, operation_keys)
