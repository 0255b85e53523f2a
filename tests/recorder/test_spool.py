"""The spool: nothing is lost, nothing waits, nothing is dropped without a word."""

import os
from pathlib import Path

import pytest

from debugger.recorder import frames
from debugger.recorder.client import Client
from debugger.recorder.conformance.gate import Gate
from debugger.recorder.sender import Sender
from debugger.recorder.spool import Spool
from tests.patience import ends
from tests.recorder.team import World, ask, build


def lines_of(spool: Spool) -> list[bytes]:
    batch = spool.peek(1000, 1 << 20)
    return [] if batch is None else list(batch.lines)


def test_it_drops_a_torn_tail_and_keeps_what_came_before_and_after(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(b'{"n":1}')
    spool.append(b'{"n":2}', durable=True)
    (path,) = (tmp_path / "spool").glob("*.seg")
    spool.close()
    with path.open("ab") as file:
        file.write(frames.encode(b'{"n":3}')[:-3])
    again = Spool(tmp_path / "spool")
    again.append(b'{"n":4}')
    batch = again.peek(1000, 1 << 20)
    assert batch is not None
    assert list(batch.lines) == [b'{"n":1}', b'{"n":2}']
    again.answered(batch)
    assert lines_of(again) == [b'{"n":4}']
    assert path.with_name(path.name + ".torn").exists()
    again.close()


def test_it_gives_batches_of_at_most_so_many_lines_and_bytes(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    for number in range(1200):
        spool.append(b"x" * 100 + str(number).encode())
    batch = spool.peek(500, 1 << 20)
    assert batch is not None
    assert len(batch.lines) == 500
    small = spool.peek(500, 1000)
    assert small is not None
    assert sum(len(line) + 1 for line in small.lines) <= 1000
    spool.close()


def test_it_removes_a_segment_only_after_the_answer(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append(b"1")
    batch = spool.peek(10, 1000)
    assert batch is not None
    assert spool.waiting == 1
    spool.answered(batch)
    assert spool.waiting == 0
    spool.close()
    assert list((tmp_path / "spool").glob("*.seg")) == []


def test_it_does_not_take_the_segment_of_a_program_that_lives(tmp_path: Path) -> None:
    first = Spool(tmp_path / "spool")
    first.append(b"1")
    second = Spool(tmp_path / "spool")
    assert second.waiting == 0
    first.close()
    second.adopt()
    assert lines_of(second) == [b"1"]
    second.close()


def test_it_gives_back_the_local_part_of_an_adopted_segment(tmp_path: Path) -> None:
    first = Spool(tmp_path / "spool")
    first.append(b"1", local=b'{"kept":true}')
    first.close()
    found: list[bytes] = []
    second = Spool(tmp_path / "spool", on_local=found.append)
    assert found == [b'{"kept":true}']
    assert lines_of(second) == [b"1"]
    second.close()


def test_it_takes_back_half_a_record_when_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = frames.AppendLog(tmp_path / "log")
    log.append(b"first")
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: real(descriptor, content[:5]))
    with pytest.raises(OSError, match="short write"):
        log.append(b"second")
    monkeypatch.undo()
    log.append(b"third")
    assert [frame.payload for frame in frames.read(tmp_path / "log")] == [b"first", b"third"]
    log.close()


def test_it_loses_nothing_and_does_not_wait_while_the_server_is_away(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    gate.errors["receipts"] = 503
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    with ends():
        run.invoke(ask())
    assert recorder.spool.waiting == run.record.count
    assert not recorder.flush(0.3)
    recorder.close()
    gate.errors.clear()
    again = world.open(gate.url)
    assert again.flush(60)
    assert len(gate.receipts) == run.record.count


def test_it_opens_and_records_offline_once_it_is_paired(gate: Gate, world: World) -> None:
    world.open(gate.url).close()
    away = world.open("http://127.0.0.1:9")
    run = away.start_run(build(away, world), thread_id="t-1")
    run.invoke(ask())
    assert away.spool.waiting == run.record.count


def test_it_delivers_again_and_the_server_counts_duplicates(gate: Gate, world: World) -> None:
    recorder = world.open(gate.url)
    gate.errors["receipts"] = 503
    run = recorder.start_run(build(recorder, world), thread_id="t-1")
    run.invoke(ask())
    lines = lines_of(recorder.spool)
    gate.errors.clear()
    Client(gate.url, "secret-token").deliver(lines[:5])
    assert recorder.flush(60)
    assert len(gate.receipts) == run.record.count
    assert gate.duplicates == 5


def test_it_keeps_refused_lines_aside_and_counts_them(gate: Gate, tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    sender = Sender(spool, Client(gate.url, "secret-token"), tmp_path / "refused.ndjson")
    spool.append(b'{"kind":"nonsense"}')
    sender.start()
    assert sender.flush(60)
    assert sender.refused_count == 1
    assert b'"rule":"enum"' in (tmp_path / "refused.ndjson").read_bytes()
    sender.stop()
    spool.close()


def test_it_finds_the_faulty_line_where_the_server_refuses_the_whole_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: Gate
) -> None:
    from debugger.recorder.client import Delivery, GateRefused

    client = Client(gate.url, "secret-token")

    def deliver(lines: tuple[bytes, ...]) -> Delivery:
        if b"bad" in lines:
            raise GateRefused(400, "json")
        return Delivery(len(lines), 0, ())

    monkeypatch.setattr(client, "deliver", deliver)
    spool = Spool(tmp_path / "spool")
    for line in (b'"1"', b"bad", b'"2"'):
        spool.append(line)
    sender = Sender(spool, client, tmp_path / "refused.ndjson")
    sender.start()
    assert sender.flush(60)
    assert sender.refused_count == 1
    sender.stop()
    spool.close()
