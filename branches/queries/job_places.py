"""Which target a job asks, and how much of it that target takes at once."""

from dataclasses import dataclass
from typing import Final

from branches.models import Job, JobKind, Receipt
from branches.ports import JsonValue, Target
from branches.queries.chains import link
from branches.queries.declarations import Declaration, declaration_of
from branches.queries.family import family_of
from branches.queries.targets import TargetMissing, target

AT_ONCE: Final = 4
PER_SECOND: Final = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A target by name; at most so many questions run at once, and so many begin in a second."""

    name: str
    at_once: int
    per_second: int


def place_of(job: Job) -> Place | None:
    """Return the place a job asks, or None where it asks nobody outside, or nobody knows whom."""
    if job.run is None:
        return None
    declaration = declaration_of(job.run)
    name = None if declaration is None else _target_of(job, declaration)
    if name is None:
        return None
    try:
        return bounds_of(target(job.workspace, name))
    except TargetMissing:
        return None


def bounds_of(where: Target) -> Place:
    """Return how much a target takes at once, as its options say; one of another form counts as unsaid."""
    return Place(
        where.name,
        _number(where.options.get("at_once"), AT_ONCE),
        _number(where.options.get("per_second"), PER_SECOND),
    )


def _target_of(job: Job, declaration: Declaration) -> str | None:
    match job.kind:
        case JobKind.PROBE_STATE:
            key = declaration.state_keys.get(job.subject)
            return None if key is None else key.target
        case JobKind.ASK_DESTINATION:
            rule = declaration.destinations.get(_destination_of(job) or "")
            return None if rule is None else rule.target
        case JobKind.AUDIT_ARRIVALS:
            rule = declaration.destinations.get(job.subject)
            return None if rule is None else rule.target
        case JobKind.CHECK_OUTCOME | JobKind.TAKE_BASELINE:
            return declaration.outcome.target
    return None


def _destination_of(job: Job) -> str | None:
    assert job.run is not None  # noqa: S101 - the caller looked
    family = family_of(job.run)
    row = (
        Receipt.objects.filter(run__in=list(family.runs), kind="effect_intended", subject=job.subject)
        .order_by("-id")
        .first()
    )
    return None if row is None else link(row).body["destination"]


def _number(value: JsonValue, default: int) -> int:
    return value if type(value) is int and value > 0 else default
