"""Fingerprints of the workflow's state keys, measured by the probe plug-ins at a quiet moment."""

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from branches import registry
from branches.evidence import drift
from branches.evidence.keys import HmacKey
from branches.ports import Moment, StateMeasurement, Target
from debugger.recorder.names import Declaration, StateRule

MEMORY_PROBE: Final = "langgraph_memory"


class StateReader:
    """Measures every declared key whose target is in this recorder's targets file; others are left out."""

    def __init__(self, declaration: Declaration, targets: Path | None, key: HmacKey) -> None:
        known: dict[str, Any] = {} if targets is None else json.loads(targets.read_text())
        self._key = key
        self._facts = declaration.names["fact"]
        self._rules: dict[str, tuple[StateRule, Target]] = {
            name: (rule, Target(rule.target, known[rule.target], key))
            for name, rule in declaration.state_keys.items()
            if rule.target in known
        }

    @property
    def keys(self) -> frozenset[str]:
        """The state keys that can be measured here."""
        return frozenset(self._rules)

    def measure(
        self,
        external_ref: str | None,
        checkpoint: str | None,
        keys: Iterable[str] | None = None,
        *,
        run: str | None = None,
    ) -> dict[str, StateMeasurement]:
        """Return the measurements now, at once for all keys; a probe that fails gives no fingerprint."""
        chosen = sorted(self.keys if keys is None else self.keys.intersection(keys))
        moment = Moment(external_ref, checkpoint, datetime.now(UTC), run)
        if len(chosen) <= 1:
            return {name: self._measure_one(name, moment) for name in chosen}
        with ThreadPoolExecutor(len(chosen), thread_name_prefix="branchgate-probe") as pool:
            return dict(
                zip(chosen, pool.map(lambda name: self._measure_one(name, moment), chosen), strict=True)
            )

    def body(self, measured: Mapping[str, StateMeasurement]) -> dict[str, Any]:
        """Return measurements as a checkpoint's receipt carries them; undeclared facts stay at home."""
        facts: dict[str, dict[str, Any]] = {
            name: {fact: word for fact, word in each.facts.items() if fact in self._facts}
            for name, each in measured.items()
        }
        taken = {name: len(known) for name, known in facts.items()}
        parts = drift.fitting({name: each.parts for name, each in measured.items()}, taken)
        return {
            name: {"fingerprint": each.fingerprint, "facts": {**facts[name], **parts.get(name, {})}}
            for name, each in measured.items()
        }

    def _measure_one(self, name: str, moment: Moment) -> StateMeasurement:
        rule, target = self._rules[name]
        try:
            return registry.find("probes", rule.probe).measure(target, moment)
        except Exception:  # noqa: BLE001 - a probe is anybody's code, and not knowing is an answer
            return StateMeasurement(None, reachable=False, problem="probe_failed")
