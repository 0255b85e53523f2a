"""The verifier of outcomes that only a person can find: it has a baseline, and no answer of its own."""

from branches.ports import Baseline, Check, OutcomeCheck, Target


class PersonVerifier:
    """No options. A reviewer who did not work on the branch confirms the outcome on its page."""

    limits = "A named person looked and said so; nothing was measured."

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return that nothing stands before the run: a person looks afterwards."""
        del target, expected
        return Baseline(None, reachable=True)

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Say that no machine knows."""
        del target, expected, baseline_version, operation_keys
        return OutcomeCheck(Check.UNREACHABLE, problem="a_person_decides")
