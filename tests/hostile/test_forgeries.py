"""Somebody with the database's own powers changes the record: the check names the first broken link."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from branches.append_only import guarded_tables, install_guards, missing_guards
from branches.evidence import chain
from branches.evidence.canonical import canonical_bytes
from branches.evidence.chain import ChainVerdict
from branches.models import Receipt, Redemption, Run
from branches.queries.branch_facts import branch_view
from branches.queries.receipts import verify_run
from tests.branches.test_branch_life import approve, fork, settle, start
from tests.builders import World, failed_run, make_world
from tests.plugins import FakeWorld

type Forge = Callable[[Run], None]


@contextmanager
def unguarded() -> Iterator[None]:
    """Drop every guard, as only the owner of the database can, and put them back."""
    words = (
        ("no_update", "no_delete", "no_replace")
        if connection.vendor == "sqlite"
        else ("no_change", "no_truncate")
    )
    settle_constraints()
    with connection.cursor() as cursor:
        for table in (guarded.table for guarded in guarded_tables()):
            for word in words:
                on = "" if connection.vendor == "sqlite" else f" ON {table}"
                cursor.execute(f"DROP TRIGGER {table}_{word}{on}")
    yield
    settle_constraints()
    install_guards(connection, guarded_tables())
    assert missing_guards(connection, guarded_tables()) == []


def settle_constraints() -> None:
    """Let PostgreSQL look at its deferred constraints: with one pending it alters no table."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def row(run: Run, seq: int) -> Receipt:
    return Receipt.objects.get(run=run, seq=seq)


def edit_the_bytes(run: Run) -> None:
    found = row(run, 4)
    Receipt.objects.filter(pk=found.pk).update(body=found.body.replace("reversible", "irreversible"))


def edit_and_hash_again(run: Run) -> None:
    found = row(run, 4)
    sealed = json.loads(found.body)
    sealed["body"]["effect_class"] = "read"
    resealed = chain.seal(
        {name: sealed[name] for name in chain.SENT_FIELDS},
        seq=4,
        recorded_at=sealed["recorded_at"],
        writer=sealed["writer"],
        prev_digest=sealed["prev_digest"],
    )
    Receipt.objects.filter(pk=found.pk).update(body=resealed.bytes.decode(), digest=resealed.digest)


def swap_two(run: Run) -> None:
    one, two = row(run, 4), row(run, 5)
    Receipt.objects.filter(pk=one.pk).update(seq=99)
    Receipt.objects.filter(pk=two.pk).update(seq=4)
    Receipt.objects.filter(pk=one.pk).update(seq=5)


def swap_the_bytes(run: Run) -> None:
    one, two = row(run, 4), row(run, 5)
    Receipt.objects.filter(pk=one.pk).update(body=two.body)
    Receipt.objects.filter(pk=two.pk).update(body=one.body)


def delete_one(run: Run) -> None:
    row(run, 4).delete()


def delete_the_prefix(run: Run) -> None:
    Receipt.objects.filter(run=run, seq__lte=3).delete()


def delete_and_close_the_gap(run: Run) -> None:
    row(run, 4).delete()
    for found in Receipt.objects.filter(run=run, seq__gt=4).order_by("seq"):
        Receipt.objects.filter(pk=found.pk).update(seq=found.seq - 1)


def white_space(run: Run) -> None:
    found = row(run, 4)
    Receipt.objects.filter(pk=found.pk).update(body=found.body.replace(",", ", ", 1))


def no_json(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(body="gone")


def another_runs_receipt(run: Run) -> None:
    other = failed_run(make_world("elsewhere"))
    Receipt.objects.filter(pk=row(run, 4).pk).update(body=row(other, 4).body)


def hide_the_kind(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(kind="message")


def move_the_subject(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(subject=row(run, 6).subject)


def another_writer(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(writer="rec_" + "a" * 24)


def another_digest(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(digest="sha256:" + "0" * 64)


def another_event(run: Run) -> None:
    Receipt.objects.filter(pk=row(run, 4).pk).update(event_id="evt_" + "a" * 24)


@pytest.mark.parametrize(
    ("forge", "seq", "reason"),
    [
        (edit_the_bytes, 4, "digest_mismatch"),
        (edit_and_hash_again, 5, "wrong_prev"),
        (swap_two, 4, "seq_gap"),
        (swap_the_bytes, 4, "seq_gap"),
        (delete_one, 4, "seq_gap"),
        (delete_the_prefix, 1, "seq_gap"),
        (delete_and_close_the_gap, 4, "seq_gap"),
        (white_space, 4, "not_canonical"),
        (no_json, 4, "unreadable"),
        (another_runs_receipt, 4, "other_run"),
        (hide_the_kind, 4, "columns_differ"),
        (move_the_subject, 4, "columns_differ"),
        (another_writer, 4, "columns_differ"),
        (another_digest, 4, "columns_differ"),
        (another_event, 4, "columns_differ"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_forged_receipt_is_named(world: World, forge: Forge, seq: int, reason: str) -> None:
    run, untouched = failed_run(world), failed_run(world)
    with unguarded():
        forge(run)
    verdict = verify_run(run)
    assert (verdict.ok, verdict.broken_seq, verdict.count) == (False, seq, seq - 1)
    assert verdict.reason in {reason, "columns_differ"}
    assert verify_run(untouched).ok
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_receipts", stdout=out)
    assert f"{run.uid} BROKEN at seq {seq}: {verdict.reason}" in out.getvalue()
    assert out.getvalue().count("BROKEN") == 1 if forge is not another_runs_receipt else True


def test_a_tail_that_was_cut_is_found_by_a_head_kept_elsewhere_and_by_nothing_less(world: World) -> None:
    run = failed_run(world)
    kept = verify_run(run)
    with unguarded():
        Receipt.objects.filter(run=run, seq=kept.count).delete()
    cut = verify_run(run)
    assert (cut.ok, cut.count, cut.head != kept.head) == (True, kept.count - 1, True)
    exact = [
        text.encode()
        for text in Receipt.objects.filter(run=run).order_by("seq").values_list("body", flat=True)
    ]
    against: ChainVerdict = chain.verify_chain(exact, expect_first_prev=None, expect_head=kept.head)
    assert (against.ok, against.reason) == (False, "head_mismatch")


def test_a_parent_that_was_rewritten_breaks_its_branches(world: World) -> None:
    """Even when every link of the parent was hashed anew and holds by itself."""
    run = failed_run(world)
    branch = fork(world, run)
    with unguarded():
        _rewrite(run)
    assert verify_run(run).ok
    verdict = verify_run(branch)
    assert (verdict.ok, verdict.broken_seq, verdict.reason) == (False, 1, "wrong_prev")
    view = branch_view(branch)
    assert (view.verdict.status, view.verdict.reasons) == ("invalid_lineage", ("parent_history_changed",))


def _rewrite(run: Run) -> None:
    prev = None
    for found in Receipt.objects.filter(run=run).order_by("seq"):
        sealed = json.loads(found.body)
        sealed["at"] = "2020-01-01T00:00:00Z"
        sent = {name: sealed[name] for name in chain.SENT_FIELDS}
        again = chain.seal(
            sent, seq=found.seq, recorded_at=sealed["recorded_at"], writer=sealed["writer"], prev_digest=prev
        )
        Receipt.objects.filter(pk=found.pk).update(body=again.bytes.decode(), digest=again.digest)
        prev = again.digest


@pytest.mark.parametrize("change", ["seq", "checkpoint", "digest", "prefix"])
def test_a_fork_point_that_was_moved_shuts_the_first_gate(world: World, change: str) -> None:
    run = failed_run(world)
    branch = fork(world, run)
    later = Receipt.objects.filter(run=run, kind="checkpoint").order_by("-seq").first()
    assert later is not None
    with unguarded():
        points = type(branch.fork_point).objects.filter(branch=branch)
        match change:
            case "seq":
                points.update(seq=later.seq)
            case "checkpoint":
                points.update(checkpoint=later.subject)
            case "digest":
                points.update(digest=later.digest)
            case "prefix":
                Receipt.objects.filter(run=run, seq__lte=branch.fork_point.seq).delete()
    branch = Run.objects.get(pk=branch.pk)
    assert branch_view(branch).verdict.status == "invalid_lineage"
    if change in {"seq", "prefix"}:
        assert verify_run(branch).reason == "wrong_prev"


def test_facts_that_were_sealed_cannot_be_exchanged(world: World, outside: FakeWorld) -> None:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    assert verify_run(branch).ok
    done = Redemption.objects.get(branch=branch)
    facts = json.loads(done.sealed_facts)
    facts["effects"] = []
    with unguarded():
        Redemption.objects.filter(pk=done.pk).update(sealed_facts=canonical_bytes(facts).decode())
    verdict = verify_run(branch)
    sealed = Receipt.objects.get(run=branch, kind="sealed")
    assert (verdict.ok, verdict.broken_seq, verdict.reason) == (False, sealed.seq, "columns_differ")
