"""The facts of a loop that stopped: its policy, the cause recorded at the boundary, steps and outcome."""

from dataclasses import dataclass
from enum import StrEnum, auto

from branches.rules.facts import FactError, Fields
from branches.rules.instants import Instant

DEFAULT_DONE_TOOL = "done"


class ConditionType(StrEnum):
    STEP_COUNT = auto()
    TOOL_CALL = auto()
    LOOP_FINISHED = auto()
    TOKEN_BUDGET = auto()
    DEADLINE = auto()


class StopCause(StrEnum):
    """`output_limit`: the provider cut the answer; `provider_error`: it threw, refused or filtered."""

    NATURAL_FINISH = auto()
    DONE_TOOL = auto()
    STEP_LIMIT = auto()
    TOKEN_BUDGET = auto()
    OUTPUT_LIMIT = auto()
    USER_ABORT = auto()
    APPROVAL_REQUESTED = auto()
    TOOL_ERROR = auto()
    PROVIDER_ERROR = auto()
    TIMEOUT = auto()


class Issuer(StrEnum):
    DESTINATION = auto()
    VALIDATOR = auto()
    HUMAN = auto()
    LOOP = auto()
    MODEL = auto()

    @property
    def is_independent(self) -> bool:
        """Loop and model speak of their own work."""
        return self in (Issuer.DESTINATION, Issuer.VALIDATOR, Issuer.HUMAN)


# What each condition says beside its type.
_SAYS = {
    ConditionType.STEP_COUNT: "n",
    ConditionType.TOOL_CALL: "tool",
    ConditionType.LOOP_FINISHED: None,
    ConditionType.TOKEN_BUDGET: "n",
    ConditionType.DEADLINE: "ms",
}


@dataclass(frozen=True, slots=True)
class StopCondition:
    """`n` counts steps or tokens, `ms` milliseconds; each type carries just the one that it needs."""

    type: ConditionType
    n: int | None = None
    tool: str | None = None
    ms: int | None = None


@dataclass(frozen=True, slots=True)
class StopPolicy:
    version: str
    conditions: tuple[StopCondition, ...]

    def limits(self, condition: ConditionType) -> tuple[int, ...]:
        """The `n` of every condition of that type."""
        return tuple(c.n for c in self.conditions if c.type == condition and c.n is not None)

    def has(self, *types: ConditionType) -> bool:
        return any(condition.type in types for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class LoopStep:
    """The names of the tools it called and the tokens it took."""

    tools: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class StopApproval:
    """What a pending approval names; None where it names nothing."""

    owner: str | None
    deadline: Instant | None
    resume_token: str | None


@dataclass(frozen=True, slots=True)
class StopOutcome:
    issuer: Issuer
    verified: bool


@dataclass(frozen=True, slots=True)
class StopFacts:
    """`tool_failed`: a tool call failed and no later call of that tool succeeded."""

    sdk: str
    policy: StopPolicy
    stop_cause: StopCause | None
    steps: tuple[LoopStep, ...]
    tool_failed: bool
    approval: StopApproval | None
    useful_progress: bool
    outcome: StopOutcome | None
    done_tool: str = DEFAULT_DONE_TOOL

    def __post_init__(self) -> None:
        for index, condition in enumerate(self.policy.conditions):
            _check_condition(condition, f"policy.conditions.{index}")

    @property
    def last_tools(self) -> tuple[str, ...]:
        """The tools of the last step; none when there was no step."""
        return self.steps[-1].tools if self.steps else ()


def _check_condition(condition: StopCondition, path: str) -> None:
    for name, value in (("n", condition.n), ("tool", condition.tool), ("ms", condition.ms)):
        if (value is not None) != (name == _SAYS[condition.type]):
            raise FactError(
                f"{path}.{name}", "is required" if value is None else "is for conditions of another type"
            )


def parse_stop(value: object) -> StopFacts:
    """Read the facts of a stop from a parsed JSON object; FactError names the first problem found."""
    fields = Fields(value)
    fields.only(
        *("sdk", "policy", "stop_cause", "done_tool", "steps", "tool_failed", "approval", "useful_progress"),
        "outcome",
    )
    return StopFacts(
        sdk=fields.name("sdk"),
        policy=_read_policy(fields.fields("policy")),
        stop_cause=fields.nullable_word("stop_cause", StopCause),
        done_tool=fields.name("done_tool", default=DEFAULT_DONE_TOOL),
        steps=tuple(_read_step(step) for step in fields.objects("steps")),
        tool_failed=fields.flag("tool_failed"),
        approval=_read_approval(fields.nullable_fields("approval")),
        useful_progress=fields.flag("useful_progress"),
        outcome=_read_outcome(fields.nullable_fields("outcome")),
    )


def _read_policy(fields: Fields) -> StopPolicy:
    fields.only("version", "conditions")
    return StopPolicy(
        version=fields.name("version"),
        conditions=tuple(_read_condition(condition) for condition in fields.objects("conditions")),
    )


def _read_condition(fields: Fields) -> StopCondition:
    condition = fields.word("type", ConditionType)
    says = _SAYS[condition]
    fields.only("type", *([says] if says else []))
    match says:
        case "tool":
            return StopCondition(condition, tool=fields.name("tool"))
        case "n":
            return StopCondition(condition, n=fields.count("n"))
        case "ms":
            return StopCondition(condition, ms=fields.count("ms"))
        case _:
            return StopCondition(condition)


def _read_step(fields: Fields) -> LoopStep:
    fields.only("tools", "tokens")
    return LoopStep(tools=fields.names("tools"), tokens=fields.count("tokens"))


def _read_approval(fields: Fields | None) -> StopApproval | None:
    if fields is None:
        return None
    fields.only("owner", "deadline", "resume_token")
    # An empty deadline is a missing one here, as the table says of all three.
    deadline = fields.instant("deadline") if fields.nullable_name("deadline") else None
    return StopApproval(fields.nullable_name("owner"), deadline, fields.nullable_name("resume_token"))


def _read_outcome(fields: Fields | None) -> StopOutcome | None:
    if fields is None:
        return None
    fields.only("issuer", "verified")
    return StopOutcome(issuer=fields.word("issuer", Issuer), verified=fields.flag("verified"))
