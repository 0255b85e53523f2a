"""What the races do: each function is one scenario on the arena's database and returns a JSON value."""

import json
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from branches import registry
from branches.commands import (
    ask_destination,
    decide,
    edit_content,
    fork_branch,
    issue_permit,
    measure_state,
    redeem_permit,
)
from branches.commands.ask_for_job import ask_for_job
from branches.commands.request_approval import request_approval
from branches.evidence import ids
from branches.models import (
    ApprovalRequest,
    Edit,
    JobKind,
    Receipt,
    Redemption,
    RequestEnd,
    ResumePermit,
    Run,
)
from branches.ports import Answer
from branches.queries.branch_facts import branch_view
from branches.queries.receipts import runs_to_verify, verify_run
from debugger.startup import prepare
from tests.builders import World, failed_run, make_world, message, run_started
from tests.hostile.racing import killed, race, runners
from tests.plugins import FakeDestination, FakeProbe, FakeVerifier, FakeWorld
from tests.words import reconcile as settle

_numbers: Iterator[int] = count(1)


def prepared() -> bool:
    """Migrate and guard."""
    prepare()
    return True


def fakes() -> FakeWorld:
    """Put fakes behind the registry's door for this process and those forked from it."""
    outside = FakeWorld()
    made = {
        "probes": FakeProbe(outside),
        "destinations": FakeDestination(outside),
        "verifiers": FakeVerifier(outside),
    }
    registry._load = lambda port, _name: made[port]  # type: ignore[assignment]
    targets = Path(tempfile.mkdtemp(dir=settings.BRANCHGATE_VAR)) / "targets.json"
    targets.write_text(json.dumps({name: {} for name in ("memory", "browser", "tickets", "mail", "reports")}))
    settings.BRANCHGATE_TARGETS = targets
    outside.answers = {"tickets": Answer.PRESENT, "mail": Answer.PRESENT}
    return outside


def new_world() -> World:
    return make_world(f"w{os.getpid()}-{next(_numbers)}")


def fork(world: World, run: Run) -> Run:
    return fork_branch.fork_branch(
        person=world.ada,
        parent=run,
        checkpoint=world.checkpoint("c1"),
        reason_code="other",
        edit_class="other",
    )


def settled(world: World, run: Run) -> Run:
    """Return a branch that only lacks its approval."""
    branch = fork(world, run)
    for key in ("agent_memory", "browser"):
        measure_state.measure_state(branch=branch, key=key)
    for name in ("ticket", "mail"):
        ask_destination.ask_destination(branch=branch, operation_key=world.operation(name))
    reconcile = partial(settle, person=world.ada, branch=branch)
    reconcile(operation_key=world.operation("ticket"))
    reconcile(operation_key=world.operation("mail"), decision="skip")
    return branch


def approve(world: World, branch: Run) -> ApprovalRequest:
    request = request_approval(person=world.ada, branch=branch)
    vote(world, request)
    return request


def vote(world: World, request: ApprovalRequest) -> str:
    decide.decide(
        person=world.grace,
        request=request,
        word="approved",
        reason="reviewed_delta",
        digest=request.subject_digest,
    )
    return "approved"


def edit(world: World, branch: Run) -> str:
    edit_content.edit_message(
        person=world.ada,
        branch=branch,
        target=world.hmac("message", "brief"),
        text="another brief",
        edit_class="add_detail",
    )
    return "edited"


def redeem(world: World, permit: ResumePermit, attempt: str | None = None) -> str:
    redeem_permit.redeem_permit(recorder=world.recorder, permit=permit, attempt=attempt or ids.mint("att"))
    return "redeemed"


def broken_chains() -> list[str]:
    """Return every run whose chain does not hold, on the whole database."""
    return [
        f"{run.uid}:{verdict.reason}" for run in runs_to_verify(None) if not (verdict := verify_run(run)).ok
    ]


def tally(words: list[str]) -> dict[str, int]:
    return dict(Counter(words))


def redemptions(branches: str, processes: str, calls: str) -> list[dict[str, Any]]:
    """Let many processes redeem one permit, `calls` in all, for several branches."""
    fakes()
    world = new_world()
    run = failed_run(world)
    found = []
    for _ in range(int(branches)):
        branch = settled(world, run)
        approve(world, branch)
        permit = issue_permit.issue_permit(person=world.ada, branch=branch)
        each = int(calls) // int(processes)
        words = race([partial(_redeem_often, world, permit, each) for _ in range(int(processes))])
        said = Counter(word for line in words for word in line.split(","))
        found.append(
            {"words": said, "rows": Redemption.objects.filter(branch=branch).count(), **_sealed(branch)}
        )
        # The next branch is judged beside this one, which has to end for the ledger to be known.
        run = failed_run(world)
    return found


def _redeem_often(world: World, permit: ResumePermit, times: int) -> str:
    from tests.hostile.racing import word_of

    return ",".join(word_of(partial(redeem, world, permit)) for _ in range(times))


def _sealed(branch: Run) -> dict[str, Any]:
    kinds = Counter(Receipt.objects.filter(run=branch).values_list("kind", flat=True))
    return {"sealed": kinds["sealed"], "redeemed": kinds["permit_redeemed"], "chain": verify_run(branch).ok}


def changed_while_redeemed(trials: str, processes: str) -> list[dict[str, Any]]:
    """Change a branch and redeem its permit at one moment from many processes; nobody may have done both."""
    fakes()
    world = new_world()
    found = []
    with runners(int(processes)) as run_at_once:
        for number in range(int(trials)):
            branch = settled(world, failed_run(world))
            approve(world, branch)
            permit = issue_permit.issue_permit(person=world.ada, branch=branch)
            change = partial(_CHANGES[number % len(_CHANGES)], world, branch)
            others = [partial(redeem, world, permit)] * (int(processes) - 2)
            words = run_at_once([change, others[0], change, *others[1:]])
            found.append(_what_came_of(branch, words))
    return [*found, {"broken": broken_chains()}]


def _what_came_of(branch: Run, words: list[str]) -> dict[str, Any]:
    return {
        "revoked": "revoked" in words,
        "changed": "changed" in words,
        "redeemed": Redemption.objects.filter(branch=branch).exists(),
        "redemptions": words.count("redeemed"),
        "errors": [word for word in words if word.startswith("error")],
        "superseded": RequestEnd.objects.filter(request__branch=branch, word="superseded").exists(),
    }


def _drifts(world: World, branch: Run) -> str:
    states = registry._load("probes", "fake").world.states
    states["memory"] = "otherwise"
    try:
        measure_state.measure_state(branch=branch, key="agent_memory")
    finally:
        del states["memory"]
    return "changed"


def _edits(world: World, branch: Run) -> str:
    edit(world, branch)
    return "changed"


def _decides(world: World, branch: Run) -> str:
    settle(person=world.ada, branch=branch, operation_key=world.operation("mail"), decision="repeat")
    return "changed"


def _configures(world: World, branch: Run) -> str:
    from branches.commands.pin_configuration import change_configuration

    change_configuration(person=world.ada, branch=branch, agent="publisher", key="prompt", value="other")
    return "changed"


def _revokes(world: World, branch: Run) -> str:
    from branches.commands.decide import revoke_authority

    revoke_authority(person=world.grace, branch=branch, reason="not_now")
    return "revoked"


_CHANGES: Final = (_edits, _decides, _configures, _drifts, _revokes)


def permits_at_once(branches: str, processes: str) -> list[dict[str, Any]]:
    """Issue permits for one branch from many processes."""
    fakes()
    world = new_world()
    found = []
    for _ in range(int(branches)):
        branch = settled(world, failed_run(world))
        approve(world, branch)
        act = partial(issue_permit.issue_permit, person=world.ada, branch=branch)
        words = race([lambda act=act: act() and "issued" for _ in range(int(processes))])
        found.append({"words": tally(words), "rows": ResumePermit.objects.filter(branch=branch).count()})
    return found


def forks_at_once(processes: str) -> dict[str, Any]:
    """Fork one run from many processes."""
    world = new_world()
    run = failed_run(world)
    words = race([lambda: str(fork(world, run).number) for _ in range(int(processes))])
    return {"numbers": sorted(words), "broken": broken_chains()}


def one_batch_from_many(rounds: str, processes: str) -> list[dict[str, Any]]:
    """Send the same first batch of a run, and the same later batch, from many processes."""
    world = new_world()
    found = []
    for _ in range(int(rounds)):
        uid = ids.mint("run")
        first = [run_started(world, uid), *[message(world, uid, f"a{n}") for n in range(5)]]
        later = [message(world, uid, f"b{n}") for n in range(40)]
        words = race([partial(_sent, world, first) for _ in range(int(processes))])
        again = race([partial(_sent, world, later) for _ in range(int(processes))])
        seqs = list(Receipt.objects.filter(run__uid=uid).order_by("seq").values_list("seq", flat=True))
        found.append(
            {
                "first": tally(words),
                "later": tally(again),
                "whole": seqs == list(range(1, 47)),
                "stored": len(seqs),
            }
        )
    return [*found, {"broken": broken_chains()}]


def _sent(world: World, receipts: list[dict[str, Any]]) -> str:
    report = world.ingest(*receipts)
    return f"{report.accepted}+{report.duplicates}-{len(report.refused)}"


def several_new_runs(processes: str) -> dict[str, Any]:
    """Send batches that begin the same runs in other orders."""
    world = new_world()
    known = failed_run(world)
    uids = [ids.mint("run") for _ in range(4)]
    starts = {uid: run_started(world, uid) for uid in uids}
    more = [message(world, known.uid, f"z{n}") for n in range(int(processes))]
    batches = []
    for number in range(int(processes)):
        turned = uids[number % 4 :] + uids[: number % 4]
        batch = [starts[uid] for uid in (turned if number % 2 else turned[::-1])]
        batches.append([*batch, more[number]] if number % 3 else [more[number], *batch])
    words = race([partial(_sent, world, batch) for batch in batches])
    rows = Receipt.objects.filter(run__uid__in=uids).count()
    return {"words": tally(words), "rows": rows, "broken": broken_chains()}


def a_family_in_motion(processes: str) -> dict[str, Any]:
    """Ingest, fork, edit and decide on one family at once."""
    fakes()
    world = new_world()
    run = failed_run(world)
    branch = settled(world, run)
    request = request_approval(person=world.ada, branch=branch)
    acts: list[Callable[[], str]] = []
    for number in range(int(processes) // 4):
        acts += [
            partial(_sent, world, [message(world, run.uid, f"n{number}-{n}") for n in range(20)]),
            lambda: str(bool(fork(world, run))),
            partial(edit, world, branch),
            partial(vote, world, request),
        ]
    words = race(acts)
    numbers = list(Run.objects.filter(root=run).order_by("number").values_list("number", flat=True))
    word = str(branch_view(branch).authority.word)
    return {
        "words": tally(words),
        "numbers": numbers == list(range(1, len(numbers) + 1)),
        "edits": Edit.objects.filter(branch=branch).count(),
        "word": word,
        "ends": list(RequestEnd.objects.filter(request=request).values_list("word", flat=True)),
        "broken": broken_chains(),
    }


def votes_at_once(processes: str) -> dict[str, Any]:
    """Approve, reject, withdraw and revoke one request at once."""
    from branches.commands.admit import grant_role
    from branches.models import Decision, Person, Role

    fakes()
    world = new_world()
    branch = settled(world, failed_run(world))
    request = request_approval(person=world.ada, branch=branch)
    voters = []
    for number in range(int(processes)):
        voter = Person.objects.create_user(f"v{number}-{world.workspace.uid}")
        grant_role(person=voter, workspace=world.workspace, role=Role.APPROVER)
        voters.append(voter)

    def votes(voter: Person, word: str) -> str:
        reason = "reviewed_delta" if word == "approved" else "too_risky"
        decide.decide(person=voter, request=request, word=word, reason=reason, digest=request.subject_digest)
        return word

    acts = [partial(votes, voter, ("approved", "rejected")[n % 2]) for n, voter in enumerate(voters)]
    words = race(acts)
    return {"words": tally(words), "rows": Decision.objects.filter(request=request).count()}


def asked_at_once(processes: str) -> dict[str, Any]:
    """Ask for one job, publish one version and pair one key from many processes."""
    import base64

    from branches.commands.admit import issue_token, pair_recorder
    from branches.commands.publish_workflow import publish_workflow
    from branches.evidence.boxes import BoxKey
    from branches.models import Job, Recorder, Workflow
    from tests.builders import declaration

    world = new_world()
    run = failed_run(world)
    token, _ = issue_token(workspace=world.workspace, name="second", scopes=["redeem"])
    key = base64.b64encode(BoxKey.generate().public).decode()

    def asks() -> str:
        ask_for_job(
            workspace=world.workspace, kind=JobKind.VERIFY_RECEIPTS, run=run, subject="chain", asked_by="x"
        )
        return "asked"

    def publishes() -> str:
        declared = declaration(version="2.0.0")
        return publish_workflow(workspace=world.workspace, publisher=token.uid, declaration=declared).version

    def pairs() -> str:
        recorder, _ = pair_recorder(token=token, name="here", runtime="langgraph 1", box_key=key)
        return "paired" if recorder.pk else "no"

    words = race([act for _ in range(int(processes)) for act in (asks, publishes, pairs)])
    return {
        "words": tally(words),
        "jobs": Job.objects.filter(run=run, kind=JobKind.VERIFY_RECEIPTS).count(),
        "workflows": Workflow.objects.filter(workspace=world.workspace, version="2.0.0").count(),
        "recorders": Recorder.objects.filter(token=token).count(),
    }


def one_job_delivered(processes: str) -> dict[str, Any]:
    """Deliver the message of one job to many workers."""
    from branches.commands.run_job import run_job
    from branches.models import Job

    fakes()
    world = new_world()
    branch = fork(world, failed_run(world))
    job = Job.objects.get(run=branch, subject="browser")
    race([partial(run_job, uid=job.uid) for _ in range(int(processes))])
    job.refresh_from_db()
    measured = Receipt.objects.filter(run=branch, kind="state_measured").count()
    return {"measured": measured, "state": job.state}


def killed_inside(name: str) -> dict[str, Any]:
    """End a process by SIGKILL after each single write of a command; is anything half-done then?"""
    fakes()
    world = new_world()
    run = failed_run(world)
    branch = settled(world, run)
    approve(world, branch)
    permit = issue_permit.issue_permit(person=world.ada, branch=branch)
    act: Callable[[], Any] = {
        "edit": partial(edit, world, branch),
        "redeem": partial(redeem, world, permit),
        "fork": lambda: fork(world, run),
        "ingest": partial(_sent, world, [message(world, run.uid, f"k{n}") for n in range(5)]),
    }[name]
    before = _counts()
    signals, touched = [], []
    for point in count(1):
        died = killed(partial(_die_at, act, point))
        if died == 0:  # there are no more writes than that: the act was done this time
            break
        signals.append(died)
        if _counts() != before:
            touched.append(point)
    chains = verify_run(branch).ok and verify_run(run).ok
    return {
        "points": len(signals),
        "signals": signals,
        "touched": touched,
        "again": _counts() != before,
        "chains": chains,
    }


def _counts() -> dict[str, int]:
    from django.apps import apps

    return {model.__name__: model.objects.count() for model in apps.get_app_config("branches").get_models()}


def _die_at(act: Callable[[], Any], occurrence: int) -> None:
    """Perform an act in which the n-th INSERT has reached the database but the process dies of it."""
    from django.db import connection

    seen = iter(range(1, occurrence + 1))

    def dying(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith(("INSERT", "UPDATE", "DELETE")) and next(seen, None) == occurrence:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    with connection.execute_wrapper(dying):
        act()
    os._exit(0)


def whole_life() -> dict[str, Any]:
    """Take one branch from its fork to a verified outcome, with a late edit on the way."""
    from django.db import connection

    from branches.commands.check_outcome import check_outcome
    from branches.commands.renew_lease import renew_lease
    from branches.commands.run_job import run_job, sweep_jobs
    from branches.models import Job
    from branches.ports import Check
    from tests.builders import closed, stopped

    outside = fakes()
    world = new_world()
    run = failed_run(world)
    seen = [str(branch_view(fork(world, run)).verdict.status)]
    branch = settled(world, run)
    seen.append(_status(branch))
    approve(world, branch)
    seen.append(_status(branch))
    edit(world, branch)
    edit(world, branch)
    seen.append(_status(branch))
    approve(world, branch)
    seen.append(_status(branch))
    permit = issue_permit.issue_permit(person=world.ada, branch=branch)
    attempt = ids.mint("att")
    redeem(world, permit, attempt)
    seen.append(_status(branch))
    _sent(world, [world.sent(branch.uid, "started", {"permit": permit.uid, "attempt": attempt})])
    assert renew_lease(recorder=world.recorder, branch=branch, attempt=attempt) is None
    seen.append(_status(branch))
    _sent(world, [stopped(world, branch.uid), closed(world, branch.uid)])
    sweep_jobs()
    for uid in Job.objects.values_list("uid", flat=True):
        run_job(uid=uid)
    seen.append(_status(branch))
    outside.newest, outside.check = "8", Check.PASSED
    check_outcome(run=branch)
    seen.append(_status(branch))
    return {"seen": seen, "role": connection.settings_dict["USER"], "broken": broken_chains()}


def _status(branch: Run) -> str:
    return str(branch_view(branch).verdict.status)


def people_at_once(scenario: str, processes: str) -> Any:
    """Run one of the races about people in a workspace of its own."""
    from tests.hostile import people_scenarios

    return getattr(people_scenarios, scenario)(new_world(), int(processes))


def notices_at_once(scenario: str, processes: str) -> Any:
    """Run one of the races about notices in a workspace of its own."""
    from tests.hostile import notice_scenarios

    loaded = registry._load
    fakes()
    faked = registry._load
    registry._load = lambda port, name: (loaded if port == "notifiers" else faked)(port, name)  # type: ignore[assignment]
    return getattr(notice_scenarios, scenario)(new_world(), int(processes))
