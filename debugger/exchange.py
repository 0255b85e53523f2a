"""Where a request for content meets the recorder that can answer: in memory, or as ciphertext in Redis.

Nothing here is written to the database, a cache on disk or the broker. The asking web process holds the only
key that opens the answer; what lies in Redis for at most thirty seconds is sealed to it.
"""

import base64
import json
import threading
import time
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final, Protocol

from django.conf import settings

from branches.evidence import boxes, ids
from branches.queries.content import Wanted

ANSWER_LIVES_S: Final = 30


@dataclass(frozen=True, slots=True)
class ContentRequest:
    """What a recorder is asked for, and the key its answer is sealed to (base64 of 32 bytes)."""

    request: str
    run: str
    kind: str
    subject: str
    checkpoint: str | None
    public: str
    sealed: str | None = None
    """What only the recorder opens (base64), where it is asked to open something."""


@dataclass(frozen=True, slots=True)
class ContentAnswer:
    """The sealed bytes (base64), or a short code of what stood in the way."""

    sealed: str | None
    problem: str | None


class Exchange(Protocol):
    """One place to leave requests for a recorder and answers for a web process."""

    def ask(self, recorder: str, request: ContentRequest) -> None: ...

    def take(self, recorder: str, wait_s: float) -> list[ContentRequest]: ...

    def answer(self, recorder: str, request: str, answer: ContentAnswer) -> bool: ...

    def collect(self, request: str, wait_s: float) -> ContentAnswer | None: ...


class MemoryExchange:
    """For one web process with threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked: dict[str, deque[ContentRequest]] = defaultdict(deque)
        self._open: dict[str, tuple[str, float]] = {}
        self._answers: dict[str, ContentAnswer] = {}

    def ask(self, recorder: str, request: ContentRequest) -> None:
        with self._changed:
            self._forget_old()
            self._asked[recorder].append(request)
            self._open[request.request] = (recorder, time.monotonic())
            self._changed.notify_all()

    def take(self, recorder: str, wait_s: float) -> list[ContentRequest]:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._asked.get(recorder)), timeout=wait_s)
            self._forget_old()
            return [item for item in self._asked.pop(recorder, ()) if item.request in self._open]

    def answer(self, recorder: str, request: str, answer: ContentAnswer) -> bool:
        with self._changed:
            self._forget_old()
            if self._open.get(request, ("", 0.0))[0] != recorder:
                return False
            # The first answer is the one that is read; the same again changes nothing.
            self._answers.setdefault(request, answer)
            self._changed.notify_all()
            return True

    def collect(self, request: str, wait_s: float) -> ContentAnswer | None:
        with self._changed:
            self._changed.wait_for(lambda: request in self._answers, timeout=wait_s)
            self._open.pop(request, None)
            return self._answers.pop(request, None)

    def _forget_old(self) -> None:
        oldest = time.monotonic() - ANSWER_LIVES_S
        for request in [uid for uid, (_, asked) in self._open.items() if asked < oldest]:
            del self._open[request]
            self._answers.pop(request, None)
        # A recorder that never comes back must not be remembered by what it was asked.
        for recorder, asked in list(self._asked.items()):
            waiting = deque(item for item in asked if item.request in self._open)
            if waiting:
                self._asked[recorder] = waiting
            else:
                del self._asked[recorder]


class RedisExchange:
    """For several web processes: ciphertext only, under keys that live thirty seconds.

    Where Redis is gone nobody is asked and nothing is answered: permits do not wait for it.
    """

    def __init__(self, url: str) -> None:
        import redis

        self._redis: Any = redis.Redis.from_url(url, socket_connect_timeout=2)
        self._gone: type[Exception] = redis.RedisError

    def ask(self, recorder: str, request: ContentRequest) -> None:
        asked = f"branchgate:asked:{recorder}"
        pipe = self._redis.pipeline()
        pipe.set(f"branchgate:open:{request.request}", recorder, ex=ANSWER_LIVES_S)
        pipe.rpush(asked, json.dumps(asdict(request)))
        pipe.expire(asked, ANSWER_LIVES_S)
        with suppress(self._gone):
            pipe.execute()

    def take(self, recorder: str, wait_s: float) -> list[ContentRequest]:
        deadline = time.monotonic() + wait_s
        try:
            found = self._redis.blpop(f"branchgate:asked:{recorder}", timeout=max(0.05, wait_s))
            if found is None:
                return []
            request = ContentRequest(**json.loads(found[1]))
            # Nobody waits any more for one that was collected or ran out of time.
            return [request] if self._redis.exists(f"branchgate:open:{request.request}") else []
        except self._gone:
            time.sleep(max(0.0, deadline - time.monotonic()))
            return []

    def answer(self, recorder: str, request: str, answer: ContentAnswer) -> bool:
        key = f"branchgate:answer:{request}"
        try:
            owner = self._redis.get(f"branchgate:open:{request}")
            if owner is None or owner.decode() != recorder:
                return False
            pipe = self._redis.pipeline()
            pipe.rpush(key, json.dumps(asdict(answer)))
            pipe.ltrim(key, 0, 0)  # the first answer is the one that is read
            pipe.expire(key, ANSWER_LIVES_S)
            pipe.execute()
        except self._gone:
            return False
        return True

    def collect(self, request: str, wait_s: float) -> ContentAnswer | None:
        try:
            found = self._redis.blpop(f"branchgate:answer:{request}", timeout=max(0.05, wait_s))
            self._redis.delete(f"branchgate:open:{request}", f"branchgate:answer:{request}")
        except self._gone:
            return None
        return ContentAnswer(**json.loads(found[1])) if found else None


@cache
def exchange() -> Exchange:
    """Return this installation's exchange."""
    url = settings.BRANCHGATE_EXCHANGE_URL
    return RedisExchange(url) if url else MemoryExchange()


def fetch_content(wanted: Wanted, *, wait_s: float = 10.0) -> tuple[str | None, str | None]:
    """Return (text, problem): what the recorder shows of what is wanted, opened in memory only."""
    key = boxes.BoxKey.generate()
    request = ContentRequest(
        request=ids.mint("req"),
        run=wanted.run,
        kind=wanted.kind,
        subject=wanted.subject,
        checkpoint=wanted.checkpoint,
        public=base64.b64encode(key.public).decode(),
        sealed=None if wanted.sealed is None else base64.b64encode(wanted.sealed).decode(),
    )
    exchange().ask(wanted.recorder, request)
    answer = exchange().collect(request.request, wait_s)
    if answer is None:
        return None, "recorder_offline"
    if answer.sealed is None:
        return None, answer.problem or "not_found"
    try:
        return key.open(base64.b64decode(answer.sealed, validate=True)).decode(), None
    except (boxes.BoxError, ValueError):
        return None, "answer_unreadable"
