"""Authority in sentences: which facts made the class, and rule by rule who has to say something."""

from dataclasses import dataclass
from typing import Final

from branches.models import Person
from branches.queries.authority import Asked, barred_people, may_decide
from branches.queries.branch_facts import BranchView
from branches.queries.rule_words import rule_words
from branches.rules.change_class import Because, ClassVerdict, Fact
from branches.rules.quorum import Need, Rule, RuleOutcome

_FACTS: Final = {
    Fact.UNDECLARED: "no workflow was declared, so nothing is ruled out",
    Fact.REACHES_NOTHING: "it reaches nothing but declared local fixtures",
    Fact.READS_OUTSIDE: "it can call {subject}, which reads outside",
    Fact.WRITES_REVERSIBLY: "it can call {subject}, which writes outside; an undo exists",
    Fact.WRITES_IRREVERSIBLY: "it can call {subject}, which cannot be undone",
    Fact.EFFECT_CLASS_UNKNOWN: "it can call {subject}, and nobody declared what that does",
    Fact.EFFECT_SETTLED: "an effect was reconciled or reverted",
    Fact.IRREVERSIBLE_DECIDED: "somebody decided on an effect that cannot be undone",
    Fact.CONFIGURATION_CHANGED: "its {subject} was changed",
    Fact.KIND_DECLARED: "whoever forked says that it touches {subject}",
    Fact.OWN_OUTCOME: "what counts as done was declared at the fork",
}
KIND_WORDS: Final = {
    "recipients": "recipients",
    "budget": "a budget",
    "permissions": "permissions",
    "target": "a production target",
    "destructive": "something destructive",
}


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One rule of the class: what it asks for, how far it is, and whether anybody here could give it."""

    sentence: str
    given: int
    needed: int
    satisfied: bool
    nobody: bool
    need: str


@dataclass(frozen=True, slots=True)
class AuthorityWords:
    """What a page says of authority over a branch."""

    reasons: tuple[str, ...]
    rules: tuple[RuleRow, ...]
    policy: str
    policy_digest: str
    is_closed: bool


def authority_words(view: BranchView) -> AuthorityWords:
    """Return the words."""
    asked = view.asked
    rules = {rule.name: rule for rule in asked.of_class.rules}
    return AuthorityWords(
        reasons=class_reasons(view.class_verdict),
        rules=tuple(_row(each, rules.get(each.rule)) for each in view.authority.quorum.outcomes),
        policy=asked.policy.version,
        policy_digest=asked.policy.digest,
        is_closed=asked.of_class.is_closed,
    )


def class_reasons(verdict: ClassVerdict) -> tuple[str, ...]:
    """Return the facts that gave the worst class, each once and in a stable order."""
    return tuple(dict.fromkeys(_sentence(each) for each in verdict.because))


def _sentence(because: Because) -> str:
    subject = KIND_WORDS.get(because.subject, because.subject)
    words = _FACTS[because.fact].format(subject=subject)
    return f"{words} (on a branch it was forked from)" if because.of_ancestor else words


def _row(outcome: RuleOutcome, rule: Rule | None) -> RuleRow:
    asked = rule or Rule(outcome.rule, outcome.role, outcome.needed)
    return RuleRow(
        sentence=rule_words(asked, outcome.destination),
        given=outcome.given,
        needed=outcome.needed,
        satisfied=outcome.need is Need.SATISFIED,
        nobody=outcome.need is Need.NOBODY,
        need=str(outcome.need),
    )


def why_not(view: BranchView, person: Person) -> str:
    """Return why somebody cannot decide here: own work, no standing, voted already; empty where they can."""
    asked: Asked = view.asked
    request = view.authority.request
    if request is None:
        return "not_requested"
    barred = barred_people(view.branch, request).get(person.pk)
    if barred is not None and not asked.allows_self_approval:
        return f"own_work:{barred}"
    if any(vote.approver_id == person.pk for vote in view.authority.decisions):
        return "voted"
    if not may_decide(asked, person.uid, view.change_class, by_requester=barred is not None):
        return "no_standing"
    return ""
