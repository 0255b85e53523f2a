"""Who waits for whom, beside the verdicts: a circle of them is a deadlock that no timer mends."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Wait:
    """Somebody waits, and what for: another agent, or something outside that nobody here owns."""

    who: str
    on: str


def deadlocks(waits: Iterable[Wait]) -> tuple[tuple[str, ...], ...]:
    """Return every group in which each waits for another of it, sorted; whoever waits for itself is one.

    A group is a strongly connected part of the graph of waits (Tarjan 1972), so two circles that share a
    member are one deadlock.
    """
    follows: dict[str, list[str]] = {}
    for wait in sorted(set(waits)):
        follows.setdefault(wait.who, []).append(wait.on)
        follows.setdefault(wait.on, [])
    groups = (group for group in _groups(follows) if len(group) > 1 or group[0] in follows[group[0]])
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def _groups(follows: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield the strongly connected parts; without recursion, for a chain of waits may be long."""
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_names: list[str] = []
    for root in follows:
        if root in index:
            continue
        walk = [(root, iter(follows[root]))]
        index[root] = lowest[root] = len(index)
        open_names.append(root)
        while walk:
            name, rest = walk[-1]
            following = next(rest, None)
            if following is None:
                walk.pop()
                if walk:
                    before = walk[-1][0]
                    lowest[before] = min(lowest[before], lowest[name])
                if lowest[name] == index[name]:
                    at = open_names.index(name)
                    yield open_names[at:]
                    del open_names[at:]
            elif following not in index:
                index[following] = lowest[following] = len(index)
                open_names.append(following)
                walk.append((following, iter(follows[following])))
            elif following in open_names:
                lowest[name] = min(lowest[name], index[following])
