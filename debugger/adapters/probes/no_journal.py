"""What probes have in common whose subject keeps no journal of its own past."""

from branches.ports import Moment, StateMeasurement, Target, Unsupported


class NoJournal:
    """Measures now only; the past is what the recorder measured at the checkpoint."""

    def capture(self, target: Target, moment: Moment) -> StateMeasurement:
        """Say that nothing kept it. Raises Unsupported."""
        del target, moment
        raise Unsupported
