"""A request and a permit as they should behave, in plain Python: what each act does, what is true then."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

REQUEST_LIVES, GRANT_LIVES, PERMIT_LIVES = timedelta(hours=8), timedelta(hours=1), timedelta(minutes=15)
GROUPS = {"grace": {"safety"}, "alan": {"desk"}, "kay": {"safety", "desk"}, "edith": {"safety"}}


@dataclass
class Asked:
    """One request as the model knows it."""

    requester: str
    content: int
    policy: int
    at: datetime
    votes: dict[str, str] = field(default_factory=dict)
    granted_at: datetime | None = None
    end: str | None = None


@dataclass
class Permit:
    """One permit: what it is bound to, and whether it is over."""

    content: int
    policy: int
    requester: str
    operator: str
    expires: datetime
    ended: bool = False


@dataclass
class Model:
    """Everything that decides whether the branch may resume."""

    now: datetime
    content: int = 0
    policy: int = 0
    engineers: set[str] = field(default_factory=lambda: {"ada", "rosa", "edith"})
    approvers: set[str] = field(default_factory=lambda: {"grace", "alan", "kay", "edith"})
    worked: set[str] = field(default_factory=lambda: {"ada"})
    requests: list[Asked] = field(default_factory=list)
    permits: list[Permit] = field(default_factory=list)
    redeemed: tuple[int, str] | None = None
    revoked: bool = False

    @property
    def current(self) -> Asked | None:
        return self.requests[-1] if self.requests else None

    def has_quorum(self, asked: Asked) -> bool:
        """Two different people, who still are approvers, of two different groups."""
        people = [who for who, word in asked.votes.items() if word == "approved" and who in self.approvers]
        return any(
            one != other and left != right
            for one in people
            for other in people
            for left in GROUPS.get(one, ())
            for right in GROUPS.get(other, ())
        )

    def word(self) -> str:
        """Say what the newest request is worth now."""
        asked = self.current
        if self.revoked:
            return "revoked"
        if self.redeemed is not None:
            return "approved"  # it was, when it counted
        if asked is None:
            return "none"
        if "rejected" in asked.votes.values():
            return "rejected"
        if asked.end is not None:
            return "none" if asked.end == "withdrawn" else asked.end
        if asked.policy != self.policy:
            return "superseded"
        if any(word == "approved" and who not in self.approvers for who, word in asked.votes.items()):
            return "expired"
        if asked.granted_at is None or not self.has_quorum(asked):
            return "expired" if self.now > asked.at + REQUEST_LIVES else "none"
        return "expired" if self.now > asked.granted_at + GRANT_LIVES else "approved"

    @property
    def is_open(self) -> bool:
        asked = self.current
        return asked is not None and asked.end is None and self.word() == "none"

    # Whether an act is allowed, and what it does

    def request(self, who: str) -> bool:
        vetoed = any(
            "rejected" in each.votes.values() and (each.content, each.policy) == (self.content, self.policy)
            for each in self.requests
        )
        allowed = (
            who in self.engineers
            and self.redeemed is None
            and self.word() not in ("revoked", "approved")
            and not self.is_open
            and not vetoed
        )
        if allowed:
            self.requests.append(Asked(who, self.content, self.policy, self.now))
            self.worked.add(who)
        return allowed

    def withdraw(self, who: str) -> bool:
        allowed = who in self.engineers and self.redeemed is None and self.is_open
        if allowed and self.current is not None:
            self.current.end = "withdrawn"
        return allowed

    def decide(self, who: str, number: int, word: str, *, shown_now: bool) -> bool:
        asked = self.requests[number]
        allowed = (
            who not in self.worked
            and who in self.approvers
            and self.redeemed is None
            and shown_now
            and (asked.content, asked.policy) == (self.content, self.policy)
            and asked is self.current
            and self.is_open
            and who not in asked.votes
        )
        if allowed:
            asked.votes[who] = word
            if self.has_quorum(asked) and asked.granted_at is None:
                asked.granted_at = self.now
        return allowed

    def change(self, who: str, content: int) -> bool:
        if who not in self.engineers or self.redeemed is not None:
            return False
        self.content = content
        self.worked.add(who)
        self.supersede()
        return True

    def supersede(self) -> None:
        """End what was asked for something else; a redeemed branch is sealed and left alone."""
        if self.redeemed is not None:
            return
        for asked in self.requests:
            if asked.end is None and (asked.content, asked.policy) != (self.content, self.policy):
                asked.end = "superseded"

    def issue(self, who: str) -> bool:
        asked = self.current
        if asked is None or who not in self.engineers or self.redeemed is not None:
            return False
        bound = (self.content, self.policy, asked.requester)
        waits = any(
            not each.ended
            and each.expires > self.now
            and (each.content, each.policy, each.requester) == bound
            for each in self.permits
        )
        allowed = "ada" in self.engineers and self.word() == "approved" and not waits
        if allowed:
            self.permits.append(Permit(*bound, who, self.now + PERMIT_LIVES))
        return allowed

    def redeem(self, number: int, attempt: str, *, right_recorder: bool) -> bool:
        permit, asked = self.permits[number], self.current
        if not right_recorder:
            return False
        if self.redeemed is not None:
            return self.redeemed == (number, attempt)
        allowed = (
            not permit.ended
            and self.now < permit.expires
            and "ada" in self.engineers
            and self.word() == "approved"
            and asked is not None
            and (permit.content, permit.policy, permit.requester)
            == (self.content, self.policy, asked.requester)
            and permit.operator in self.engineers
        )
        if allowed:
            self.redeemed = (number, attempt)
        return allowed

    def decline(self, number: int, *, right_recorder: bool) -> bool:
        permit = self.permits[number]
        if not right_recorder:
            return False
        if not (self.redeemed is not None and self.redeemed[0] == number):
            permit.ended = True
        return True

    def revoke(self, who: str) -> bool:
        allowed = who in self.approvers and not self.revoked
        if allowed:
            self.revoked = True
            if self.current is not None and self.current.end is None:
                self.current.end = "revoked"
        return allowed

    def sweep(self) -> None:
        """What the clock ends: requests that nobody decided in time, and those of an old policy."""
        if self.redeemed is not None:
            return
        for asked in self.requests:
            undecided = asked.granted_at is None and "rejected" not in asked.votes.values()
            if asked.end is None and undecided and self.now > asked.at + REQUEST_LIVES:
                asked.end = "expired"
        if any(asked.end is None and asked.policy != self.policy for asked in self.requests):
            self.supersede()
