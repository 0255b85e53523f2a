"""The record's commands, as an operator and an auditor use them."""

import base64
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection

from branches.append_only import guarded_tables, install_guards
from branches.evidence.chain import verify_chain
from branches.models import Receipt, Run
from branches.queries.governance import governance_receipt
from tests.branches.test_branch_life import approve, fork, settle, start
from tests.builders import World, failed_run, stopped
from tests.plugins import FakeWorld


def run(name: str, *arguments: str) -> str:
    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


def tamper(sql: str, parameters: list[Any]) -> None:
    """Change the record as whoever owns the database could: without its guards."""
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            for word in ("no_update", "no_delete", "no_replace"):
                cursor.execute(f"DROP TRIGGER branches_receipt_{word}")
        else:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("ALTER TABLE branches_receipt DISABLE TRIGGER ALL")
        cursor.execute(sql, parameters)
        if connection.vendor != "sqlite":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        if connection.vendor != "sqlite":
            cursor.execute("ALTER TABLE branches_receipt ENABLE ALWAYS TRIGGER branches_receipt_no_change")
    install_guards(connection, guarded_tables())


def resumed(world: World, outside: FakeWorld) -> Run:
    branch = fork(world, failed_run(world))
    settle(world, branch, outside)
    approve(world, branch)
    start(world, branch)
    world.ingest(stopped(world, branch.uid))
    return branch


def test_intact_chains_are_said_to_be_intact(world: World, outside: FakeWorld) -> None:
    branch = resumed(world, outside)
    lines = run("verify_receipts").splitlines()
    assert len(lines) == 3
    assert all("chain intact" in line for line in lines)
    assert lines[-1].startswith(world.workspace.uid)
    assert run("verify_receipts", branch.uid).startswith(branch.uid)


def test_the_first_broken_link_is_named(world: World) -> None:
    parent = failed_run(world)
    row = Receipt.objects.get(run=parent, seq=4)
    tamper(
        "UPDATE branches_receipt SET bytes = %s WHERE id = %s",
        [row.body.replace("create_ticket", "create_titbit"), row.pk],
    )
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("verify_receipts", stdout=out)
    assert out.getvalue().splitlines()[0] == f"{parent.uid} BROKEN at seq 4: digest_mismatch"


def test_a_branch_says_that_its_parents_link_is_gone(world: World) -> None:
    parent = failed_run(world)
    branch = fork(world, parent)
    point = branch.fork_point
    tamper(
        "UPDATE branches_receipt SET digest = %s WHERE run_id = %s AND seq = %s",
        ["sha256:" + "0" * 64, parent.pk, point.seq],
    )
    out = io.StringIO()
    with pytest.raises(CommandError):
        call_command("verify_receipts", branch.uid, stdout=out)
    assert "BROKEN at seq 1: wrong_prev" in out.getvalue()


def test_an_unknown_run_is_an_error(db: None) -> None:
    with pytest.raises(CommandError, match="run: unknown"):
        run("verify_receipts", "run_nothing")


def test_the_export_holds_the_exact_bytes(world: World, capfdbinary: Any) -> None:
    parent = failed_run(world)
    call_command("export_receipts", parent.uid)
    lines = capfdbinary.readouterr().out.splitlines()
    assert verify_chain(lines, expect_first_prev=None, run=parent.uid).ok
    assert len(lines) == Receipt.objects.filter(run=parent).count()
    with pytest.raises(CommandError, match="name runs, or give --all"):
        call_command("export_receipts")


def test_a_governance_receipt_is_checked_offline(world: World, outside: FakeWorld, tmp_path: Path) -> None:
    branch = resumed(world, outside)
    path = tmp_path / "receipt.json"
    path.write_bytes(governance_receipt(branch) + b"\n")
    assert run("verify_governance_receipt", str(path)).strip() == f"valid {branch.uid}: false_success"
    chain = tmp_path / "chain.ndjson"
    rows = Receipt.objects.filter(run=branch).order_by("seq").values_list("body", flat=True)
    chain.write_text("".join(row + "\n" for row in rows))
    assert "valid" in run("verify_governance_receipt", str(path), "--receipts", str(chain))
    chain.write_text("".join(row + "\n" for row in list(rows)[:-1]))
    with pytest.raises(SystemExit) as stopped_with:
        run("verify_governance_receipt", str(path), "--receipts", str(chain))
    assert stopped_with.value.code == 1


def test_a_governance_receipt_is_checked_without_django(
    world: World, outside: FakeWorld, tmp_path: Path
) -> None:
    branch = resumed(world, outside)
    path = tmp_path / "receipt.json"
    path.write_bytes(governance_receipt(branch))
    key = run("verify_governance_receipt", "--show-key").strip()
    program = (
        "import sys; from branches.evidence.verify import main; code = main(sys.argv[1:]);"
        "assert not {name.split('.')[0] for name in sys.modules} & {'django', 'celery'}; sys.exit(code)"
    )
    checked = subprocess.run(
        [sys.executable, "-c", program, str(path), "--key", key], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stdout.strip()) == (0, f"valid {branch.uid}: false_success")
    other = subprocess.run(
        [sys.executable, "-c", program, str(path), "--key", "11" * 32], capture_output=True, check=False
    )
    assert other.returncode == 1


def test_a_changed_governance_receipt_is_invalid(world: World, outside: FakeWorld, tmp_path: Path) -> None:
    branch = resumed(world, outside)
    envelope = json.loads(governance_receipt(branch))
    path = tmp_path / "receipt.json"
    envelope["payload"] = envelope["payload"][:-8] + "AAAA" + envelope["payload"][-4:]
    path.write_text(json.dumps(envelope, sort_keys=True, separators=(",", ":")))
    with pytest.raises(SystemExit) as stopped_with:
        run("verify_governance_receipt", str(path))
    assert stopped_with.value.code == 1
    with pytest.raises(SystemExit) as stopped_with:
        run("verify_governance_receipt", str(path), "--key", "00" * 32)
    assert stopped_with.value.code == 1
    path.write_text("no receipt")
    with pytest.raises(SystemExit) as stopped_with:
        run("verify_governance_receipt", str(path))
    assert stopped_with.value.code == 3


def test_a_governance_receipt_holds_no_content(world: World, outside: FakeWorld) -> None:
    branch = resumed(world, outside)
    payload = base64.b64decode(json.loads(governance_receipt(branch))["payload"]).decode()
    assert "CONTENT-MARKER" not in payload
    predicate = json.loads(payload)["predicate"]
    assert [gate["gate"] for gate in predicate["verdict"]["gates"] if gate["passed"]] == [
        "lineage", "state", "effects", "authority", "configuration",
    ]  # fmt: skip
    assert all(predicate["evidence"][gate] for gate in ("lineage", "state", "effects", "authority"))
