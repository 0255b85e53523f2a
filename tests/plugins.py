"""Plug-ins that say what a test tells them to."""

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from branches import registry
from branches.ports import (
    Answer,
    Baseline,
    Check,
    DestinationAnswer,
    Moment,
    OutcomeCheck,
    Question,
    StateMeasurement,
    Target,
    Unsupported,
)


@dataclass
class FakeWorld:
    """The world outside, as the fake plug-ins see it."""

    states: dict[str, str | None] = field(default_factory=dict)
    journal: dict[str, str] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    newest: str | None = "7"
    check: Check = Check.NONE
    reachable: bool = True


class FakeProbe:
    limits = "Nothing but a fingerprint is compared."
    remedy = "Put it back by hand and probe again."

    def __init__(self, world: FakeWorld) -> None:
        self.world = world

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        value = self.world.states.get(target.name, "as-it-was")
        if value is None:
            return StateMeasurement(None, reachable=False, problem="down")
        return StateMeasurement(target.key.digest("state", value))

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        if target.name not in self.world.journal:
            raise Unsupported
        return StateMeasurement(target.key.digest("state", self.world.journal[target.name]))


class FakeDestination:
    def __init__(self, world: FakeWorld) -> None:
        self.world = world

    def ask(self, target: Target, question: Question) -> DestinationAnswer:
        return DestinationAnswer(self.world.answers.get(target.name, Answer.UNKNOWN))


class FakeVerifier:
    def __init__(self, world: FakeWorld) -> None:
        self.world = world

    def baseline(self, target: Target, expected: str) -> Baseline:
        return Baseline(self.world.newest, reachable=self.world.reachable)

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        fresh = self.world.newest != baseline_version
        return OutcomeCheck(self.world.check, fresh=fresh, version=self.world.newest)


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Any, settings: Any) -> FakeWorld:
    """Put the fakes behind the registry's door and return what they look at."""
    world = FakeWorld()
    made = {
        "probes": FakeProbe(world),
        "destinations": FakeDestination(world),
        "verifiers": FakeVerifier(world),
    }
    loaded = registry._load

    def load(port: str, name: str) -> Any:
        return made[port] if name == "fake" else loaded(port, name)

    monkeypatch.setattr(registry, "_load", load)
    targets = tmp_path / "targets.json"
    names = ("memory", "browser", "tickets", "mail", "reports")
    options = {name: {} for name in names} | {"mail": {"expected": {"letter-sent": {}}}}
    targets.write_text(json.dumps(options))
    settings.BRANCHGATE_TARGETS = targets
    return world
