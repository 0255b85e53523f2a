"""Forks processes that all start at one moment, and collects what each of them came to."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.db import connections

from branches.commands.refusal import Refused
from tests.patience import comes

type Act = Callable[[], Any]
_LIMIT_S = 240.0


def race(acts: Sequence[Act]) -> list[str]:
    """Perform every act in a process of its own, all at once; returns each one's word, in order.

    The word is what the act returned, `refused:RULE`, or `error:TYPE` for whatever else it raised.
    """
    connections.close_all()  # a connection that two processes share would mix their answers
    forking = multiprocessing.get_context("fork")
    gate = forking.Barrier(len(acts))
    words = forking.Queue()
    running = [
        forking.Process(target=_perform, args=(act, index, gate, words)) for index, act in enumerate(acts)
    ]
    for each in running:
        each.start()
    found = dict(words.get(timeout=_LIMIT_S) for _ in acts)
    for each in running:
        each.join(_LIMIT_S)
    return [found[index] for index in range(len(acts))]


type Race = Callable[[Sequence[Act]], list[str]]


@contextmanager
def runners(count: int) -> Iterator[Race]:
    """Fork that many processes once; what is given performs so many acts in them, as often as it is called.

    They keep their connections from race to race, as a server's processes do. An act has to be picklable:
    what it closes over is as it was when it was handed over, and module state as it was at the fork.
    """
    connections.close_all()
    forking = multiprocessing.get_context("fork")
    gate = forking.Barrier(count)
    ways = [forking.Pipe() for _ in range(count)]
    running = [forking.Process(target=_perform_all, args=(theirs, gate)) for _, theirs in ways]
    for each in running:
        each.start()

    def run(acts: Sequence[Act]) -> list[str]:
        for (ours, _), act in zip(ways, acts, strict=True):
            ours.send(act)
        return [_heard(ours) for ours, _ in ways]

    try:
        yield run
    finally:
        for ours, _ in ways:
            ours.send(None)
        for each in running:
            each.join(_LIMIT_S)


def _heard(way: Any) -> str:
    assert way.poll(_LIMIT_S), "a process of the race gave no word"
    return str(way.recv())


def _perform_all(way: Any, gate: Any) -> None:
    try:
        while (act := way.recv()) is not None:
            gate.wait(_LIMIT_S)
            way.send(word_of(act))
    finally:
        connections.close_all()
        os._exit(0)


def killed(act: Act) -> int:
    """Perform an act that ends its own process by SIGKILL half-way; returns the signal it died of."""
    connections.close_all()
    child = multiprocessing.get_context("fork").Process(target=act)
    child.start()
    child.join(_LIMIT_S)
    return -(child.exitcode or 0)


def _perform(act: Act, index: int, gate: Any, words: Any) -> None:
    try:
        gate.wait(_LIMIT_S)
        words.put((index, word_of(act)))
    finally:
        connections.close_all()
        words.close()
        words.join_thread()
        os._exit(0)


def word_of(act: Act) -> str:
    """Return what an act came to, in one word."""
    try:
        return str(act())
    except Refused as refused:
        return f"refused:{refused.rule}"
    except Exception as error:  # noqa: BLE001 - whatever went wrong is what the race is about
        return f"error:{type(error).__name__}:{error}"


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Return whether something comes true in time."""
    return comes(holds, seconds)
