"""A database, asked for the row of an operation by a declared query; read-only, bounded, nothing kept.

Options of a destination: `url`, `sqlite:///` and a path, or `postgresql://USER@HOST:PORT/DATABASE` with
`?sslmode=` and `password_env` (an environment variable's name); `query` with `:operation_key`; `payload` and
`fields` as http_json has them, over the row's columns; `version` and `ref` (columns); `list_query` with
`:since` (RFC 3339), of which the columns `operation_key`, `at` and `ref` are read; `allow`.

Options of a verifier: `url` and its like; `latest_query`, newest row first; `version` (column); `expected`
(expected outcome -> {column: value}); `artifact` (columns); `operation_key` (column); `allow`.
"""

from datetime import UTC, datetime
from typing import Final

from branches.ports import Answer, Arrival, Baseline, DestinationAnswer, OutcomeCheck, Question, Target
from debugger.adapters.answers import answer_of, baseline_of, check_of
from debugger.adapters.destinations.json_answer import version_at
from debugger.adapters.destinations.json_list import moment_of
from debugger.adapters.destinations.keys_in_names import key_of
from debugger.adapters.destinations.outcomes import NOTHING, newest_of_ours, outcome, wanted_of
from debugger.adapters.destinations.rebuilt import content_of, found, ref_at
from debugger.adapters.destinations.sql_rows import Row, rows
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable

MOST_ARRIVALS: Final = 1000
_MOST_NEWEST: Final = 50
_REF: Final = {"ref": "ref"}


class SqlRowDestination:
    """Asks a database for the row that carries an operation's key."""

    limits = (
        "A transaction that is still open, and a row that was deleted since, look as if they never were; the"
        " row is compared in the declared columns only."
    )

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        """Return what the database holds now; whatever proves nothing is `unknown`."""
        return answer_of(lambda: _answer(target, question))

    def lists(self, target: Target) -> bool:
        """Whether the target says how everything is listed."""
        return "list_query" in target.options

    def arrivals(self, target: Target, since: datetime) -> list[Arrival] | None:
        """Return what the declared query lists since a moment; None where that is not all of it."""
        try:
            listed = rows(target, "list_query", {"since": since.isoformat()}, MOST_ARRIVALS + 1)
        except (Unreachable, TargetUnfit):
            return None
        if len(listed) > MOST_ARRIVALS:
            return None
        shown = [_arrival(target, row) for row in listed]
        return [each for each in shown if each.at is None or each.at >= since]


class SqlRowVerifier:
    """Asks a database for its newest row, and whether it is the expected one and newer than the baseline."""

    limits = "It proves what the row says, not that what the row speaks of exists anywhere else."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return the newest row's version, of whatever sort the row is."""
        del expected
        return baseline_of(lambda: _version(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer row that fits; failed where there is none."""
        return check_of(lambda: _checked(target, expected, baseline_version, operation_keys))


def _answer(target: Target, question: Question) -> DestinationAnswer:
    if ":operation_key" not in text(target, "query"):
        raise TargetUnfit("query", "operation_key")
    shown = rows(target, "query", {"operation_key": question.operation_key}, 2)
    if not shown:
        return DestinationAnswer(Answer.ABSENT)
    if len(shown) > 1:
        raise Unreachable("ambiguous")
    return found(
        target,
        question,
        shown[0],
        content=content_of(target, shown[0]),
        version=version_at(shown[0], text(target, "version") if "version" in target.options else None),
        ref=ref_at(target, shown[0]),
    )


def _version(target: Target) -> str | None:
    shown = rows(target, "latest_query", {}, 1)
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
    shown = rows(target, "latest_query", {}, _MOST_NEWEST)
    if not shown:
        return NOTHING
    return outcome(target, newest_of_ours(target, shown, operation_keys), wanted, baseline, operation_keys)


def _arrival(target: Target, row: Row) -> Arrival:
    own = Target(target.name, _REF, target.key)
    at = moment_of(row.get("at"))
    return Arrival(
        ref_at(own, row) or content_of(target, row),
        key_of(row.get("operation_key")),
        at.astimezone(UTC) if at is not None else None,
    )
