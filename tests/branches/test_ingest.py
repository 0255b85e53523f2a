"""What a batch of receipts becomes."""

import json
from typing import Any

import pytest

from branches.commands.fork_branch import fork_branch
from branches.commands.ingest_receipts import ingest_receipts
from branches.evidence import ids
from branches.models import MapBlock, Receipt, Run
from branches.queries.branch_facts import branch_view
from branches.queries.message_map import BLOCK, message_map
from branches.queries.receipts import verify_run
from tests.builders import (
    World,
    checkpoint,
    closed,
    effect,
    failed_run,
    make_world,
    message,
    run_started,
    stopped,
)

MARKER = "CONTENT-MARKER-7f3a"


def test_it_numbers_and_chains_what_it_stores(world: World) -> None:
    run = failed_run(world)
    seqs = list(Receipt.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1))
    verdict = verify_run(run)
    assert (verdict.ok, verdict.count) == (True, len(seqs))


def test_the_same_again_is_a_duplicate(world: World) -> None:
    uid = ids.mint("run")
    batch = [run_started(world, uid), message(world, uid, "a")]
    assert world.ingest(*batch).accepted == 2
    again = world.ingest(*batch)
    assert (again.accepted, again.duplicates, again.refused) == (0, 2, [])
    assert Receipt.objects.filter(run__uid=uid).count() == 2


def test_the_same_id_twice_in_one_batch_counts_once(world: World) -> None:
    uid = ids.mint("run")
    twice = message(world, uid, "a")
    report = world.ingest(run_started(world, uid), twice, twice)
    assert (report.accepted, report.duplicates) == (2, 1)


def test_another_body_under_the_same_id_is_refused_and_recorded(world: World) -> None:
    uid = ids.mint("run")
    first = message(world, uid, "a")
    world.ingest(run_started(world, uid), first)
    other = {**first, "body": {**first["body"], "bytes": 13}}
    report = world.ingest(other)
    assert [(line.line, line.field, line.rule) for line in report.refused] == [(1, "event_id", "conflict")]
    conflict = Receipt.objects.get(run__uid=uid, kind="conflict")
    body = json.loads(conflict.body)["body"]
    assert body["event_id"] == first["event_id"]
    assert body["kept"] != body["refused"]


def test_an_atomic_batch_with_one_bad_line_leaves_nothing(world: World) -> None:
    uid = ids.mint("run")
    first = message(world, uid, "a")
    world.ingest(run_started(world, uid), first)
    other = {**first, "body": {**first["body"], "bytes": 13}}
    before = Receipt.objects.count()
    report = world.ingest(message(world, uid, "b"), other, atomic=True)
    assert (report.accepted, len(report.refused), report.heads) == (0, 1, {})
    assert Receipt.objects.count() == before


def test_good_lines_are_stored_beside_bad_ones(world: World) -> None:
    uid = ids.mint("run")
    lines = [
        json.dumps(run_started(world, uid)).encode(),
        b"{not json",
        json.dumps(message(world, uid, "a")).encode(),
        b'{"v": 1, "v": 1}',
    ]
    report = ingest_receipts(recorder=world.recorder, lines=lines)
    assert report.accepted == 2
    assert [(line.line, line.rule) for line in report.refused] == [(2, "json"), (4, "duplicate_key")]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"content": f"{MARKER} hello"}, "body.content"),
        ({"sender": "somebody-undeclared"}, "body.sender"),
        ({"class": MARKER}, "body.class"),
        ({MARKER: 1}, "body"),
    ],
)
def test_content_is_refused_with_its_field_and_never_echoed(
    world: World, change: dict[str, Any], field: str
) -> None:
    uid = ids.mint("run")
    sent = message(world, uid, "a")
    bad = {**sent, "body": {**sent["body"], **change}}
    report = world.ingest(run_started(world, uid), bad)
    assert [line.field for line in report.refused] == [field]
    assert MARKER not in repr(report)
    assert not Receipt.objects.filter(body__contains=MARKER).exists()


def test_an_unknown_run_is_a_refused_line_like_any_other(world: World) -> None:
    report = world.ingest(message(world, ids.mint("run"), "a"))
    assert [(line.field, line.rule) for line in report.refused] == [("run", "unknown")]


def test_another_workspaces_run_does_not_exist_here(world: World) -> None:
    run = failed_run(world)
    other = make_world("other")
    report = other.ingest(message(other, run.uid, "a"))
    assert [(line.field, line.rule) for line in report.refused] == [("run", "unknown")]
    assert other.ingest(run_started(other, run.uid)).refused[0].rule == "unknown"


def test_a_branch_accepts_nothing_before_its_permit_is_redeemed(world: World) -> None:
    branch = fork_branch(
        person=world.ada,
        parent=failed_run(world),
        checkpoint=world.checkpoint("c1"),
        reason_code="other",
        edit_class="other",
    )
    report = world.ingest(message(world, branch.uid, "a"))
    assert [(line.field, line.rule) for line in report.refused] == [("run", "not_resumed")]


def test_a_loop_cannot_speak_for_a_destination(world: World) -> None:
    uid = ids.mint("run")
    outcome = {
        "expected": "report",
        "issuer": {"type": "destination", "name": None},
        "check": "passed",
        "artifact": None,
        "destination_version": None,
        "operation_key": None,
    }
    report = world.ingest(run_started(world, uid), world.sent(uid, "outcome", outcome))
    assert [(line.field, line.rule) for line in report.refused] == [("body.issuer.type", "not_entitled")]


def test_what_a_run_declared_at_its_start_is_frozen(world: World) -> None:
    uid = ids.mint("run")
    first = run_started(world, uid)
    assert world.ingest(first).accepted == 1
    other = run_started(world, uid, configuration=None)
    assert [line.rule for line in world.ingest(other).refused] == ["already_started"]
    assert world.ingest(first).duplicates == 1


def test_product_kinds_cannot_be_sent(world: World) -> None:
    run = failed_run(world)
    sent = world.sent(run.uid, "sealed", {"permit": ids.mint("prm")})
    assert world.ingest(sent).refused[0].field == "kind"


def test_map_blocks_are_the_same_however_the_batches_fell(world: World) -> None:
    maps = []
    for size in (1, 7, 400):
        uid = ids.mint("run")
        receipts = [run_started(world, uid)]
        receipts += [message(world, uid, f"m{n}", ("publisher", "orchestrator")[n % 2]) for n in range(600)]
        receipts += [checkpoint(world, uid, "c1"), *effect(world, uid, "t", "create_ticket", "c1")]
        receipts += [message(world, uid, f"n{n}") for n in range(200)]
        for start in range(0, len(receipts), size):
            assert not world.ingest(*receipts[start : start + size]).refused
        run = Run.objects.get(uid=uid)
        assert MapBlock.objects.filter(run=run, level=0).count() == len(receipts) // BLOCK
        assert MapBlock.objects.filter(run=run, level=1).count() == len(receipts) // BLOCK // 8
        found = message_map(run.pk)
        maps.append((found.columns, found.counts, found.marks, found.totals))
    assert maps[0] == maps[1] == maps[2]
    assert sum(maps[0][3].senders.values()) == 800
    assert (maps[0][3].checkpoints, maps[0][3].effects) == (1, 1)


def test_a_block_that_the_products_own_receipt_completes_is_counted_too(world: World) -> None:
    uid = ids.mint("run")
    first = message(world, uid, "m0")
    receipts = [run_started(world, uid), first, *[message(world, uid, f"m{n}") for n in range(1, BLOCK - 2)]]
    world.ingest(*receipts)
    world.ingest({**first, "body": {**first["body"], "bytes": 13}})  # the conflict is receipt number 32
    run = Run.objects.get(uid=uid)
    assert Receipt.objects.get(run=run, seq=BLOCK).kind == "conflict"
    world.ingest(*[message(world, uid, f"n{n}") for n in range(BLOCK)])
    assert list(MapBlock.objects.filter(run=run, level=0).values_list("block", flat=True)) == [0, 1]
    assert message_map(run.pk).totals.senders.total() == 2 * BLOCK - 2


def test_a_gap_in_the_writers_numbers_makes_the_ledger_unknown(world: World) -> None:
    uid = ids.mint("run")
    receipts = [run_started(world, uid), checkpoint(world, uid, "c1")]
    lost = message(world, uid, "lost")
    receipts += [stopped(world, uid), closed(world, uid)]
    world.ingest(*receipts)
    branch = fork_branch(
        person=world.ada,
        parent=Run.objects.get(uid=uid),
        checkpoint=world.checkpoint("c1"),
        reason_code="other",
        edit_class="other",
    )
    assert branch_view(branch).facts.effects_ledger == "unknown"
    world.ingest(lost)
    assert branch_view(branch).facts.effects_ledger == "complete"


def test_of_very_many_contents_under_one_id_ten_are_put_on_record_and_all_are_refused(world: World) -> None:
    run = failed_run(world)
    first = message(world, run.uid, "first", "publisher")
    assert world.ingest(first).accepted == 1
    others = [
        {**message(world, run.uid, f"other {number}", "publisher"), "event_id": first["event_id"]}
        for number in range(25)
    ]
    for _ in range(2):
        assert len(world.ingest(*others).refused) == 25
    assert Receipt.objects.filter(run=run, kind="conflict", subject=first["event_id"]).count() == 10
