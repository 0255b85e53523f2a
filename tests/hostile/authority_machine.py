"""Random lives of a request and a permit: every act against the model, and faults that must be found."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from unittest.mock import patch

import yaml
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from branches.commands import decide as deciding
from branches.commands import issue_permit as issuing
from branches.commands import redeem_permit as redeeming
from branches.commands import request_approval as requesting
from branches.commands import supersede_requests as superseding
from branches.commands.admit import grant_role, issue_token, pair_recorder
from branches.commands.expire_requests import expire_requests
from branches.commands.groups import make_group, set_membership
from branches.commands.pin_configuration import change_configuration
from branches.commands.propose_change import adopt_policy
from branches.commands.refusal import Refused
from branches.evidence import ids
from branches.evidence.boxes import BoxKey
from branches.models import ApprovalRequest, Person, Recorder, Redemption, ResumePermit, Role, Run
from branches.queries import authority, branch_facts, clock
from branches.queries.authority import Asked
from branches.queries.branch_facts import branch_view
from branches.queries.policies import policy_of
from branches.queries.policy_text import default_text
from branches.queries.standings import roster_of
from branches.queries.subject import subject_digest, subject_of
from branches.rules.branch_facts import Decision as Word
from branches.rules.change_class import ChangeClass
from branches.rules.quorum import Need
from tests.branches.test_branch_life import fork, settle
from tests.builders import World, declaration, failed_run, make_world
from tests.hostile.authority_model import GROUPS, Model
from tests.plugins import FakeWorld

ENGINEERS, APPROVERS = ("ada", "rosa"), ("grace", "alan", "kay", "edith")
EVERYBODY = (*ENGINEERS, *APPROVERS, "linus")
START = datetime(2026, 12, 1, 9, tzinfo=UTC)
WHOLE = 20
"""After every so many acts the whole branch is read, and not its authority alone."""
CONTENTS = ("be long", "be kind", "be exact")


class Stage:
    """A branch that passes every gate but authority, with its cast; each life begins from here."""

    def __init__(self, outside: FakeWorld) -> None:
        # All that is made here is older than the first act, whatever day it is.
        with _clock() as clock:
            clock.moment = START - timedelta(hours=1)
            self._build(outside)

    def _build(self, outside: FakeWorld) -> None:
        lasting = {"max_age_s": 30 * 86_400, "start_s": 60}
        self.world: World = make_world(declared=declaration(limits=lasting))
        self.people: dict[str, Person] = {
            "ada": self.world.ada,
            "rosa": self.world.rosa,
            "grace": self.world.grace,
            "linus": self.world.linus,
        }
        workspace = self.world.workspace
        grant_role(person=self.world.rosa, workspace=workspace, role=Role.ENGINEER)
        for name in ("alan", "kay", "edith"):
            self.people[name] = Person.objects.create_user(f"{name}-desk")
            grant_role(person=self.people[name], workspace=workspace, role=Role.APPROVER)
        # Whoever holds both roles is who could approve what they asked for or changed themselves.
        grant_role(person=self.people["edith"], workspace=workspace, role=Role.ENGINEER)
        for name, groups in GROUPS.items():
            for group in groups:
                made = make_group(workspace=workspace, name=group)
                set_membership(group=made, person=self.people[name], held=True)
        self.policies = tuple(_policy(version) for version in ("a", "b"))
        adopt_policy(workspace=workspace, text=self.policies[0])
        self.branch: Run = fork(self.world, failed_run(self.world))
        settle(self.world, self.branch, outside)
        self.other = self._other_recorder()
        self.kept: dict[str, Any] = {}

    @contextmanager
    def evidence_stands(self) -> Iterator[None]:
        """Read what no act here can move (state, effects, outcome) once, so that lives can be many."""
        with ExitStack() as held:
            for name in _STANDING:
                held.enter_context(
                    patch.object(branch_facts, name, _once(getattr(branch_facts, name), self.kept, name))
                )
            yield

    def _other_recorder(self) -> Recorder:
        token, _ = issue_token(workspace=self.world.workspace, name="other", scopes=["redeem"])
        import base64

        public = base64.b64encode(BoxKey.generate().public).decode()
        return pair_recorder(token=token, name="other", runtime="tests", box_key=public)[0]


_STANDING = (
    "key_evidence",
    "effect_lines",
    "audits_of",
    "ledger_state",
    "outcome_view",
    "checkpoint_link",
    "class_of_branch",
    "destinations_to_own",
)


def _once(find: Callable[..., Any], kept: dict[str, Any], name: str) -> Callable[..., Any]:
    def found(*arguments: Any) -> Any:
        if name not in kept:
            value = find(*arguments)
            kept[name] = value if not isinstance(value, Iterator) else tuple(value)
        return kept[name]

    return found


def _policy(version: str) -> str:
    document = yaml.safe_load(default_text())
    return yaml.safe_dump({**document, "policy": version, "tests": []}, sort_keys=False)


class Found(AssertionError):
    """The product did something else than the model says that it must."""


class AuthorityLife(RuleBasedStateMachine):
    """One life: random acts of random people at random times."""

    stage: Stage
    steps = 0

    @initialize(seed=st.integers(0, 2**64 - 1))
    def begin(self, seed: int) -> None:
        self.seed, self.acts = seed, 0
        self.held = ExitStack()
        self.held.enter_context(_undone())
        self.held.enter_context(self.stage.evidence_stands())
        self.clock = self.held.enter_context(_clock())
        self.model = Model(now=START)
        self.versions = 0
        self.requests: list[ApprovalRequest] = []
        self.permits: list[ResumePermit] = []
        self.redemptions: set[tuple[int, str]] = set()

    def teardown(self) -> None:
        if hasattr(self, "held"):
            self.held.close()

    # Acts: which one is weighed by where the life stands, or few lives would come as far as a redemption.

    @rule(luck=st.integers(0, 2**64 - 1))
    def act(self, luck: int) -> None:
        # Small and repeated numbers are drawn often; mixed, they make lives that differ.
        self.acts += 1
        chance = Random(f"{self.seed} {self.acts} {luck}")
        weights = self._weights()
        (name,) = chance.choices(list(weights), list(weights.values()))
        getattr(self, f"_{name}")(chance)

    def _weights(self) -> dict[str, float]:
        """Return how likely each act is; every act may come whenever it can be done at all."""
        model = self.model
        odds = {"request": 1.0, "change": 0.5, "change_role": 0.5, "change_policy": 0.3, "revoke": 0.5}
        odds |= {"issue": 0.5, "wait": 1.0, "sweep": 0.5}
        if self.requests:
            odds |= {"withdraw": 0.5, "decide": 1.5}
        if self.permits:
            odds |= {"redeem": 1.0, "decline": 0.4}
        if model.redeemed is not None:
            odds["come_again"] = 3.0
        elif model.is_open:
            odds |= {"approve": 6.0, "reject": 0.7}
            if self._approvers_who_may_leave():
                odds["lose_an_approver"] = 1.5
        elif model.word() != "approved":
            odds["request"] = 5.0
        elif not self._permit_waits():
            odds["issue"] = 6.0
        else:
            odds |= {"redeem": 4.0, "lose_the_operator": 2.0, "let_the_permit_run_out": 0.5}
            odds |= {"stay_away": 0.5}
        return odds

    def _permit_waits(self) -> bool:
        permits = self.model.permits
        return bool(permits) and not permits[-1].ended and permits[-1].expires > self.model.now

    def _request(self, chance: Random) -> None:
        who = chance.choice((*ENGINEERS, *EVERYBODY))
        made = self._act(
            self.model.request(who),
            requesting.request_approval,
            person=self._person(who),
            branch=self._branch,
        )
        if made is not None:
            self.requests.append(made)

    def _withdraw(self, chance: Random) -> None:
        who = chance.choice(("ada", "rosa", "grace", "linus"))
        self._act(
            self.model.withdraw(who),
            requesting.withdraw_request,
            person=self._person(who),
            request=self._fresh(self.requests[-1]),
        )

    def _approve(self, chance: Random) -> None:
        self._vote(chance.choice(APPROVERS), "approved", "now", 1)

    def _reject(self, chance: Random) -> None:
        self._vote(chance.choice(APPROVERS), "rejected", "now", 1)

    def _decide(self, chance: Random) -> None:
        """Whoever, on whatever was shown to them, at whichever request."""
        self._vote(
            chance.choice(EVERYBODY),
            chance.choice(("approved", "approved", "rejected")),
            chance.choice(("now", "now", "then", "nothing")),
            chance.choice((1, 1, 2)),
        )

    def _vote(self, who: str, word: str, shown: str, back: int) -> None:
        number = max(0, len(self.requests) - back)
        asked = self._fresh(self.requests[number])
        known = self.model.requests[number]
        if (known.content, known.policy) == (self.model.content, self.model.policy):
            current = asked.subject_digest  # were it another one, the product would refuse, and be found
        else:
            current = subject_digest(subject_of(branch_view(self._branch), asked.requester))
        digest = {"now": current, "then": asked.subject_digest, "nothing": ""}[shown]
        self._act(
            self.model.decide(who, number, word, shown_now=digest == current),
            deciding.decide,
            person=self._person(who),
            request=asked,
            word=word,
            reason="reviewed_delta" if word == "approved" else "too_risky",
            digest=digest,
        )

    def _change(self, chance: Random) -> None:
        who, content = chance.choice(("ada", "edith", "rosa", "linus")), chance.randrange(len(CONTENTS))
        self._act(
            self.model.change(who, content + 1),
            change_configuration,
            person=self._person(who),
            branch=self._branch,
            agent="publisher",
            key="prompt",
            value=CONTENTS[content],
        )

    def _change_role(self, chance: Random) -> None:
        self._hold(chance.choice(("alan", "alan", "kay", "rosa")), chance.random() < 0.7)

    def _lose_an_approver(self, chance: Random) -> None:
        """Whoever has approved is an approver no longer."""
        self._hold(chance.choice(self._approvers_who_may_leave()), False)

    def _approvers_who_may_leave(self) -> list[str]:
        votes = self.model.current.votes if self.model.current else {}
        return [
            who for who in ("alan", "kay") if votes.get(who) == "approved" and who in self.model.approvers
        ]

    def _hold(self, who: str, held: bool) -> None:
        role, holders = (
            (Role.ENGINEER, self.model.engineers) if who == "rosa" else (Role.APPROVER, self.model.approvers)
        )
        grant_role(person=self._person(who), workspace=self.stage.world.workspace, role=role, held=held)
        (holders.add if held else holders.discard)(who)

    def _change_policy(self, chance: Random) -> None:
        self.versions += 1
        text = self.stage.policies[self.versions % 2].replace("policy: ", f"policy: v{self.versions}-")
        adopt_policy(workspace=self.stage.world.workspace, text=text)
        self.model.policy = self.versions

    def _issue(self, chance: Random) -> None:
        who = chance.choice(("ada", "rosa", "rosa", "linus"))
        made = self._act(
            self.model.issue(who), issuing.issue_permit, person=self._person(who), branch=self._branch
        )
        if made is not None:
            self.permits.append(made)

    def _redeem(self, chance: Random) -> None:
        back, right = chance.choice((1, 1, 1, 2)), chance.random() < 0.8
        self._present(max(0, len(self.permits) - back), chance.choice("ab"), right)

    def _come_again(self, chance: Random) -> None:
        """Whoever redeemed it asks once more, or another one does."""
        assert self.model.redeemed is not None
        self._present(self.model.redeemed[0], chance.choice("ab"), True)

    def _lose_the_operator(self, chance: Random) -> None:
        """Whoever asked for the permit loses their role just before it is redeemed."""
        if self.model.permits[-1].operator == "rosa":
            self._hold("rosa", False)
        self._present(len(self.permits) - 1, "a", True)

    def _let_the_permit_run_out(self, chance: Random) -> None:
        """The recorder comes when the permit is over, and the approval is not yet."""
        self._pass(16)
        self._present(len(self.permits) - 1, "a", True)

    def _stay_away(self, chance: Random) -> None:
        """Nobody comes until the approval itself is over, and then somebody does."""
        self._pass(61)
        self._present(len(self.permits) - 1, "a", True)

    def _present(self, number: int, attempt: str, right: bool) -> None:
        done = self._act(
            self.model.redeem(number, attempt, right_recorder=right),
            redeeming.redeem_permit,
            recorder=self.stage.world.recorder if right else self.stage.other,
            permit=ResumePermit.objects.get(pk=self.permits[number].pk),
            attempt=ids.derive_id("att", self.permits[number].uid, attempt),
        )
        if done is not None:
            self.redemptions.add((number, attempt))

    def _decline(self, chance: Random) -> None:
        right = chance.random() < 0.5
        self._act(
            self.model.decline(len(self.permits) - 1, right_recorder=right),
            redeeming.decline_permit,
            recorder=self.stage.world.recorder if right else self.stage.other,
            permit=ResumePermit.objects.get(pk=self.permits[-1].pk),
            rule="told_to",
        )

    def _revoke(self, chance: Random) -> None:
        who = chance.choice((*APPROVERS, "ada", "linus"))
        # Nothing comes after a revocation, so most of those who could speak it do not.
        if who in self.model.approvers and chance.random() < 0.7:
            return
        self._act(
            self.model.revoke(who),
            deciding.revoke_authority,
            person=self._person(who),
            branch=self._branch,
            reason="too_risky",
        )

    def _wait(self, chance: Random) -> None:
        self._pass(chance.choice((1, 1, 1, 14, 16, 59, 61, 481)))

    def _pass(self, minutes: int) -> None:
        self.model.now += timedelta(minutes=minutes)
        self.clock.moment = self.model.now

    def _sweep(self, chance: Random) -> None:
        expire_requests()
        superseding.supersede_by_policy()
        self.model.sweep()

    # What is always true

    @invariant()
    def the_product_says_what_the_model_says(self) -> None:
        if not hasattr(self, "model"):
            return
        type(self).steps += 1
        found = self._word()
        if found != self.model.word():
            raise Found(f"word: {found} and not {self.model.word()}")
        if self.steps % WHOLE == 0:
            self._look_at_the_whole_branch()
        if len(self.redemptions) > 1 or Redemption.objects.filter(branch=self._branch).count() > 1:
            raise Found("redeemed twice")

    def _word(self) -> str:
        """What the newest request is worth, read as a page reads it; the rest of the branch stands still."""
        workspace, branch = self.stage.world.workspace, self._branch
        asked = Asked(
            policy_of(workspace), roster_of(workspace), ChangeClass.C4, ("mail", "tickets"), self.model.now
        )
        return str(authority.authority_view(branch, asked).word)

    def _look_at_the_whole_branch(self) -> None:
        verdict = branch_view(self._branch).verdict
        is_ready = verdict.status == "ready_to_resume"
        if self.model.redeemed is None and is_ready != (
            self.model.word() == "approved" and "ada" in self.model.engineers
        ):
            raise Found(f"status: {verdict.status} while authority is {self.model.word()}")

    # How an act is done

    @property
    def _branch(self) -> Run:
        """The branch as a page reads it anew; its own columns never change."""
        near = ("workspace", "workflow", "recorder", "root")
        if "run" not in self.stage.kept:
            self.stage.kept["run"] = Run.objects.select_related(*near).get(pk=self.stage.branch.pk)
        kept: Run = self.stage.kept["run"]
        run = Run(**{field.attname: getattr(kept, field.attname) for field in Run._meta.concrete_fields})
        run._state.db, run._state.adding = kept._state.db, False
        for name in near:
            run._state.fields_cache[name] = getattr(kept, name)
        return run

    def _person(self, who: str) -> Person:
        return self.stage.people[who]

    def _fresh(self, request: ApprovalRequest) -> ApprovalRequest:
        near = ("branch__workspace", "branch__workflow", "branch__root", "requester")
        return ApprovalRequest.objects.select_related(*near).get(pk=request.pk)

    def _act(self, allowed: bool, command: Callable[..., Any], **arguments: Any) -> Any:
        """Do it; the product must refuse just what the model refuses, and by a rule of its own."""
        try:
            with transaction.atomic():
                done = command(**arguments)
        except Refused as refused:
            if allowed:
                raise Found(f"{command.__name__} was refused: {refused.rule}") from None
            return None
        if not allowed:
            raise Found(f"{command.__name__} was let through")
        return done


class _Clock:
    moment = START


@contextmanager
def _clock() -> Iterator[_Clock]:
    held = _Clock()
    with patch.object(clock.timezone, "now", lambda: held.moment):
        yield held


@contextmanager
def _undone() -> Iterator[None]:
    """Let what happens inside leave nothing behind."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def lives(examples: int, steps: int) -> settings:
    """Return how many lives of how many acts; the same ones each time."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )


# Faults: each is a switch of this double, put before the product and taken away again.


def _ignores_groups(*args: Any, **kwargs: Any) -> Any:
    verdict = _judge_quorum(*args, **kwargs)
    enough = all(each.need in (Need.SATISFIED, Need.GROUPS) for each in verdict.outcomes)
    return replace(verdict, granted=enough)


def _one_is_enough(*args: Any, **kwargs: Any) -> Any:
    verdict = _judge_quorum(*args, **kwargs)
    return replace(verdict, granted=all(each.given for each in verdict.outcomes))


def _old_policy_counts(request: Any, decisions: Any, ended: Any, asked: Any, quorum: Any) -> Any:
    request.policy = asked.policy.digest
    return _word(request, decisions, ended, asked, quorum)


def _timeout_approves(request: Any, decisions: Any, ended: Any, asked: Any, quorum: Any) -> Any:
    word = _word(request, decisions, ended, asked, quorum)
    return Word.APPROVED if word is Word.EXPIRED and ended is None and not decisions else word


def _rejection_is_forgotten(request: Any, decisions: Any, ended: Any, asked: Any, quorum: Any) -> Any:
    kept = tuple(vote for vote in decisions if vote.word != "rejected")
    return _word(request, kept, ended, asked, quorum)


@contextmanager
def _revocation_is_forgotten() -> Iterator[None]:
    """Neither the branch's revocation nor the end that it gave to a request is seen."""

    def blind(request: Any, decisions: Any, ended: Any, asked: Any, quorum: Any) -> Any:
        return _word(request, decisions, None if ended == "revoked" else ended, asked, quorum)

    with patch.object(authority, "Revocation", _Nowhere), patch.object(authority, "_word", blind):
        yield


class _NoRows:
    """Whatever is asked for is not there."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: self

    def exists(self) -> bool:
        return False

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Nowhere:
    objects = _NoRows()


def _anything_goes(*args: Any, **kwargs: Any) -> Any:
    return True


def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def _never_over(*args: Any, **kwargs: Any) -> datetime:
    return datetime(2100, 1, 1, tzinfo=UTC)


_judge_quorum, _word = authority.judge_quorum, authority._word

FAULTS: dict[str, Callable[[], Any]] = {
    "the requester may approve": lambda: patch.object(deciding, "barred_people", lambda *_: {}),
    "roles are not read at the decision": lambda: patch.object(deciding, "may_decide", _anything_goes),
    "roles are not read again later": lambda: patch.object(authority, "may_decide", _anything_goes),
    "groups do not count": lambda: patch.object(authority, "judge_quorum", _ignores_groups),
    "one approval is enough": lambda: patch.object(authority, "judge_quorum", _one_is_enough),
    "a grant never ends": lambda: patch.object(authority, "grant_ends", _never_over),
    "a timeout approves": lambda: patch.object(authority, "_word", _timeout_approves),
    "a rejection is forgotten": lambda: patch.object(authority, "_word", _rejection_is_forgotten),
    "a veto binds nobody": lambda: patch.object(requesting, "Decision", _Nowhere),
    "a revocation is not looked for": _revocation_is_forgotten,
    "an approval outlives its policy": lambda: patch.object(authority, "_word", _old_policy_counts),
    "a change supersedes nothing": lambda: patch(
        "branches.commands.pin_configuration.supersede_requests", _nothing
    ),
    "any recorder may redeem": lambda: patch.object(redeeming, "_check_audience", _nothing),
    "a permit never ends": lambda: patch.object(redeeming, "_check_term", _nothing),
    "a second attempt is answered": lambda: patch.object(
        redeeming, "_same_or_refuse", lambda done, permit, attempt: redeeming._answer(done)
    ),
    "the operator's role is not read": lambda: patch.object(redeeming, "is_engineer", _anything_goes),
    "a permit waits beside another": lambda: patch.object(issuing, "ResumePermit", _WithoutWaiting),
}


class _WithoutWaiting:
    """The permits, of which none ever seems to wait."""

    class objects:  # noqa: N801 - Django's name
        filter = staticmethod(lambda **_: _NoRows())
        create = staticmethod(ResumePermit.objects.create)
