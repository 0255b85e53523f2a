"""What a plug-in answers where it could not look: a word, and which option of its target is wrong."""

from collections.abc import Callable
from typing import Final

from branches.ports import (
    Answer,
    Baseline,
    Check,
    DestinationAnswer,
    OutcomeCheck,
    StateMeasurement,
)
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable

UNFIT: Final = "target_unfit"


def unfit_measurement(error: ValueError) -> StateMeasurement:
    """Return what a probe says of a target that it cannot read."""
    named = str(error) if isinstance(error, TargetUnfit) else None
    return StateMeasurement(None, reachable=False, problem=UNFIT, unfit=named)


def answer_of(look: Callable[[], DestinationAnswer]) -> DestinationAnswer:
    """Return the answer that a look gives; whatever stood in its way is unknown, and never absent."""
    try:
        return look()
    except Unreachable as error:
        return DestinationAnswer(Answer.UNKNOWN, problem=error.problem)
    except TargetUnfit as error:
        return DestinationAnswer(Answer.UNKNOWN, problem=UNFIT, unfit=str(error))


def baseline_of(look: Callable[[], str | None]) -> Baseline:
    """Return the version that a look finds, or why there is none."""
    try:
        return Baseline(look(), reachable=True)
    except Unreachable as error:
        return Baseline(None, reachable=False, problem=error.problem)
    except TargetUnfit as error:
        return Baseline(None, reachable=False, problem=UNFIT, unfit=str(error))


def check_of(look: Callable[[], OutcomeCheck]) -> OutcomeCheck:
    """Return the check that a look makes; whatever stood in its way is unreachable."""
    try:
        return look()
    except Unreachable as error:
        return OutcomeCheck(Check.UNREACHABLE, problem=error.problem)
    except TargetUnfit as error:
        return OutcomeCheck(Check.UNREACHABLE, problem=UNFIT, unfit=str(error))
