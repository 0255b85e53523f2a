"""The shapes of requests and answers; an unknown member is an error."""

from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from branches.evidence.kinds.forms import DIGEST, NAME_PATTERN, OPERATION_KEY, VERSION_PATTERN

type Seconds = Annotated[float, Field(allow_inf_nan=False)]
# A name that a person gave a machine: printable, and never a line of a log of its own.
type MachineName = Annotated[str, Field(max_length=96, pattern=f"^(?:{NAME_PATTERN})$")]
type Id = Annotated[str, Field(max_length=40)]
type Base64 = Annotated[str, Field(max_length=4 * 1024 * 1024)]


class Closed(Schema):
    """A body in which every member is known."""

    model_config = ConfigDict(extra="forbid")


class RuntimeName(Closed):
    name: Annotated[str, Field(max_length=48, pattern=f"^(?:{NAME_PATTERN})$")]
    version: Annotated[str, Field(max_length=32, pattern=f"^(?:{VERSION_PATTERN})$")]


class Pairing(Closed):
    """A recorder introduces itself: its name, the key it can open boxes with, its runtime."""

    name: MachineName
    box_key: Annotated[str, Field(max_length=64)]
    runtime: RuntimeName


class Continuing(Closed):
    """A recorder that paired before asks what it has to open to go on under another token."""

    recorder: Annotated[str, Field(max_length=64)]


class Challenge(Schema):
    """What only the key that the recorder paired with opens (base64)."""

    sealed: str


class Proof(Closed):
    """What a challenge held (base64)."""

    recorder: Annotated[str, Field(max_length=64)]
    proof: Annotated[str, Field(max_length=64)]


class ServerKey(Schema):
    key_id: str
    public: str


class SealedKey(Schema):
    key_id: str
    sealed: str


class Paired(Schema):
    """What a recorder keeps: the key it checks permits with, and the workspace's HMAC key sealed to it."""

    recorder: str
    workspace: str
    server_key: ServerKey
    hmac_key: SealedKey


class WorkflowOut(Schema):
    workflow: str
    digest: str
    declaration: dict[str, Any]


class WorkflowIn(Closed):
    declaration: dict[str, Any]


class RefusedLineOut(Schema):
    line: int
    field: str
    rule: str


class HeadOut(Schema):
    seq: int
    digest: str | None


class BatchOut(Schema):
    """What became of a batch; what is counted as accepted is durable."""

    accepted: int
    duplicates: int
    refused: list[RefusedLineOut]
    heads: dict[str, HeadOut]


class RefusedPlaceOut(Schema):
    where: str
    field: str
    rule: str


class SourceOut(Schema):
    """What became of posted evidence, and what the three audits make of its run."""

    run: str
    accepted: int
    duplicates: int
    refused: list[RefusedPlaceOut]
    stops: list[dict[str, Any]]
    handoffs: list[dict[str, Any]]
    topology: dict[str, Any] | None
    operations: int
    judged: int


class ContentRequestOut(Schema):
    request: str
    run: str
    kind: str
    subject: str
    checkpoint: str | None
    public: str
    sealed: str | None


class WorkOut(Schema):
    """What waits for a recorder."""

    permits: list[dict[str, Any]]
    content: list[ContentRequestOut]
    stop: list[str]


class EditOut(Schema):
    edit: str
    edit_class: str
    target: str
    state_key: str | None
    sealed: str


class EditsOut(Schema):
    edits: list[EditOut]


class PushedIn(Closed):
    """An outcome as its destination pushes it: of which run, at which of its own versions."""

    run: Id
    expected: Annotated[str, Field(max_length=96, pattern=f"^(?:{NAME_PATTERN})$")]
    check: Literal["passed", "failed"]
    operation_key: Annotated[str, Field(max_length=160, pattern=OPERATION_KEY["pattern"])]
    version: Annotated[str, Field(max_length=32, pattern=f"^(?:{VERSION_PATTERN})$")]
    artifact: Annotated[str, Field(max_length=128, pattern=DIGEST["pattern"])] | None = None


class PushedOut(Schema):
    check: str


class RedeemIn(Closed):
    recorder: Id
    attempt: Id


class RedeemedOut(Schema):
    branch: str
    attempt: str
    redeemed_at: str
    lease_s: int


class DeclineIn(Closed):
    recorder: Id
    rule: Annotated[str, Field(max_length=48, pattern="^[a-z][a-z0-9_]*$")]


class ConformanceIn(Closed):
    """What a recorder kept of the conformance suite's promises: by the names of its checks."""

    runtime: Annotated[str, Field(max_length=96)]
    runtime_version: Annotated[str, Field(max_length=32)]
    suite: Annotated[str, Field(max_length=32)]
    passed: Annotated[list[str], Field(max_length=64)]
    failed: Annotated[list[str], Field(max_length=64)]


class LeaseIn(Closed):
    attempt: Id


class LeaseOut(Schema):
    go: bool
    rule: str | None


class ContentIn(Closed):
    sealed: Base64 | None = None
    problem: Annotated[str, Field(max_length=48, pattern="^[a-z][a-z0-9_]*$")] | None = None


class DoneOut(Schema):
    ok: bool


class GateOut(Schema):
    gate: str
    passed: bool
    reasons: list[str]


class BranchOut(Schema):
    """A branch with its two tracks apart: `status` is the verdict's, `gates` are judged one by one."""

    branch: str
    parent: str
    checkpoint: str
    number: int | None
    status: str
    fidelity: str
    reasons: list[str]
    next_action: str
    gates: list[GateOut]
    change_class: str
    facts: dict[str, Any]


class RunOut(Schema):
    run: str
    workflow: str | None
    version: str | None
    parent: str | None
    seq: int
    digest: str | None
    branches: list[str]


class RunsOut(Schema):
    runs: list[RunOut]


class CheckpointOut(Schema):
    checkpoint: str
    seq: int
    step: int | None
    at: str
    consistent: bool
    keys: list[str]


class CheckpointsOut(Schema):
    checkpoints: list[CheckpointOut]


class KeyOut(Schema):
    """One required state key; `restore` is `missing` where nothing is known of it."""

    key: str
    probe: str
    at_checkpoint: str | None
    now: str | None
    restore: str
    stale: bool
    measured_at: str | None
    acknowledgeable: bool


class EvidenceOut(Schema):
    keys: list[KeyOut]


class EffectOut(Schema):
    """One operation after the checkpoint; `destination_says` is null where nobody has asked."""

    operation_key: str
    tool: str
    destination: str | None
    effect_class: str
    key_strength: str
    payload: str
    agent_says: str
    destination_says: str | None
    asked_at: str | None
    status: str
    decision: str | None
    basis: str | None
    stale: bool
    blocks: bool


class EffectsOut(Schema):
    effects: list[EffectOut]


class OutcomeOut(Schema):
    claimed: bool
    check: str
    fresh: bool
    version: str | int | None
