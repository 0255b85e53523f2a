"""What the loop claimed and what was checked about the expected outcome."""

from dataclasses import dataclass
from typing import Final

from branches.models import Run
from branches.queries.chains import Link, links
from branches.rules.branch_facts import Check, Loop, Outcome

_KINDS: Final = ("started", "stopped", "outcome", "outcome_checked", "baseline_taken")


@dataclass(frozen=True, slots=True)
class OutcomeView:
    """The loop's last word, the newest check, and what stood at the destination before the resume."""

    started: Link | None
    stopped: Link | None
    claim: Link | None
    checked: Link | None
    baseline: Link | None

    @property
    def facts(self) -> Outcome | None:
        """Return what the rules judge: nothing before the start receipt."""
        if self.started is None:
            return None
        loop = Loop(self.stopped.body["loop"]) if self.stopped else Loop.RUNNING
        check = Check(self.checked.body["check"]) if self.checked else Check.NONE
        fresh = bool(self.checked and self.checked.body["fresh"])
        if self.stopped is None and self.checked is None:
            return None
        return Outcome(loop=loop, check=check, fresh=fresh)


def outcome_view(run: Run) -> OutcomeView:
    """Return the outcome receipts of a run."""
    # Of each kind there are few, and asking five times would cost more than reading them all.
    newest = {item.kind: item for item in links([run.pk], _KINDS)}
    return OutcomeView(
        started=newest.get("started"),
        stopped=newest.get("stopped"),
        claim=newest.get("outcome"),
        checked=newest.get("outcome_checked"),
        baseline=newest.get("baseline_taken"),
    )
