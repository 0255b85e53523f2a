"""Branchgate's own approvals as a state: the requests of other branches, asked of its API like anybody's."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from branches.evidence.domains import PART, REF, STATE
from branches.evidence.ids import is_id
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.addresses import Allowed
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.bearer import bearer
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Page, Unreachable, get, place_of

MOST_REQUESTS: Final = 5_000
TOTAL_S: Final = 10.0
_PENDING: Final = "pending"
_RESOLVED: Final = frozenset(
    {"approved", "rejected", "expired", "withdrawn", "superseded", "revoked", "consumed"}
)
_WORDS: Final = {401: "not_authorized", 403: "not_authorized", 404: "not_found", 429: "busy"}


@dataclass(frozen=True, slots=True)
class _Answer:
    as_of: str
    requests: list[tuple[str, str]]
    more: bool


class BranchgateApprovalsProbe:
    """Options: `url` of a Branchgate (without `/api`), `auth_env` (a token that may read), `allow`."""

    acknowledgeable = False
    part_names = ("pending", "resolved")
    limits = (
        "Which requests of other branches waited at the checkpoint and how the others had ended is compared;"
        " what was asked for later, and the requests of the branch's own family, are not."
    )
    remedy = "Ask anew for what was pending then, or fork from a checkpoint after it was decided."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return how the requests that there were at the moment stand now."""
        return _measured(target, moment, {})

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Return how the same requests stood at the moment: the record keeps its past."""
        return _measured(target, moment, {"as_of": moment.at.isoformat()})


def _measured(target: Target, moment: Moment, as_of: dict[str, str]) -> StateMeasurement:
    beside = {} if moment.run is None else {"beside": moment.run}
    question = {"until": moment.at.isoformat(), **as_of, **beside}
    try:
        found = dict(_requests(target, question))
    except TargetUnfit as error:
        return unfit_measurement(error)
    except Unreachable as error:
        return StateMeasurement(None, reachable=False, problem=error.problem)
    return _measurement(target, found)


def _measurement(target: Target, found: dict[str, str]) -> StateMeasurement:
    key = target.key
    lists: dict[str, list[Any]] = {
        "pending": sorted(key.digest(REF, each) for each, word in found.items() if word == _PENDING),
        "resolved": sorted([key.digest(REF, each), word] for each, word in found.items() if word != _PENDING),
    }
    return StateMeasurement(
        key.digest_of(STATE, {"approvals": lists}),
        {name: len(listed) for name, listed in lists.items()},
        parts={
            key.digest(PART, name): key.digest_of(STATE, {f"approvals_{name}": listed})
            for name, listed in lists.items()
        },
    )


def _requests(target: Target, question: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield every request with its state, all as of one moment. Raises TargetUnfit, Unreachable.

    Every page is asked as of the first one's moment: a queue that moves meanwhile is still one state.
    """
    deadline, told = time.monotonic() + TOTAL_S, 0
    while True:
        answer = _ask(target, question)
        yield from answer.requests
        told += len(answer.requests)
        if not answer.more:
            return
        if not answer.requests or told >= MOST_REQUESTS:
            raise Unreachable("too_many")
        if time.monotonic() > deadline:
            raise Unreachable("timeout")
        question = {**question, "as_of": answer.as_of, "after": answer.requests[-1][0]}


def _ask(target: Target, question: dict[str, str]) -> _Answer:
    address = text(target, "url").rstrip("/")
    if "?" in address:
        raise TargetUnfit("url", "address")
    url = f"{address}/api/v1/approvals?{urlencode(question)}"
    try:
        allowed = Allowed.of(target.options.get("allow"))
    except ValueError:
        raise TargetUnfit("allow", "addresses") from None
    return _answer(get(url, allowed=allowed, headers=bearer(target, place_of(url))))


def _answer(page: Page) -> _Answer:
    """Read an answer of exactly our form; whatever else came back says nothing. Raises Unreachable."""
    if page.status != 200:
        raise Unreachable(
            _WORDS.get(page.status, "server_error" if page.status >= 500 else "status_undeclared")
        )
    try:
        told = json.loads(page.body)
        listed = [(each["request"], each["state"]) for each in told["requests"]]
        answer = _Answer(told["as_of"], listed, told["more"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreachable("answer_form") from None
    if not isinstance(answer.as_of, str) or not isinstance(answer.more, bool) or not all(map(_fits, listed)):
        raise Unreachable("answer_form")
    return answer


def _fits(listed: tuple[Any, Any]) -> bool:
    request, word = listed
    return is_id(request, "req") and isinstance(word, str) and (word == _PENDING or word in _RESOLVED)
