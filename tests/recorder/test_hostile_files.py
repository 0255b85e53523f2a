"""What nobody's runtime wrote, and what no store would hold: refused at the door, without a traceback."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from branches.commands.edit_content import edit_value
from branches.commands.refusal import Refused
from branches.models import Edit
from tests.branches.test_branch_life import fork
from tests.builders import failed_run, make_world
from tests.plugins import FakeProbe, FakeWorld

CUT = "x'81a2'"
WHOLE = "x'81ae6368616e6e656c5f76616c75657381a1780a'"  # {"channel_values": {"x": 10}}


def hostile(
    path: Path, *, thread: str = "'t'", kind: str = "'msgpack'", blob: str = CUT, more: str = ""
) -> str:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(
            "create table checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type,"
            " checkpoint, metadata);"
            "create table writes (thread_id, checkpoint_ns, checkpoint_id, task_id, idx, channel, type,"
            " value);"
            f"insert into checkpoints values ({thread}, '', '1ef0', null, {kind}, {blob}, x'7b7d'); {more}"
        )
    return str(path)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"blob": "x'81ae6368616e6e656c5f76616c75657381a178c1'"},
        {"blob": "x'c1'"},
        {"blob": "'text'"},
        {"blob": "9000000000000000000"},
        {"blob": WHOLE, "more": "update checkpoints set metadata = 7;"},
        {"blob": WHOLE, "more": f"update checkpoints set metadata = '{'[' * 100_000}';"},
        {"blob": WHOLE, "more": "drop table writes;"},
    ],
)
def test_a_store_whose_rows_are_not_the_runtimes_is_refused_and_no_traceback(
    db: None, tmp_path: Path, change: dict[str, str]
) -> None:
    with pytest.raises(CommandError, match=r"^a file could not be read: it is not what its kind says$"):
        call_command("import", "langgraph", hostile(tmp_path / "store.sqlite", **change))


@pytest.mark.parametrize(
    "change",
    [
        {"thread": "x'ff'"},
        {"thread": "7"},
        {"thread": "null"},
        {"more": "update checkpoints set checkpoint_id = 7;"},
        {"more": "update checkpoints set parent_checkpoint_id = x'00';"},
        {"more": "update checkpoints set checkpoint_ns = null;"},
        {"more": "insert into writes values ('t', '', '1ef0', x'00', -1, 7, 'msgpack', x'81');"},
    ],
)
def test_ids_of_another_type_bring_no_traceback(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str]
) -> None:
    said = ""
    try:
        call_command("import", "langgraph", hostile(tmp_path / "store.sqlite", blob=WHOLE, **change))
        said = capsys.readouterr().out
    except CommandError as error:
        said = str(error)
    assert '"refused": []' in said or said == "a file could not be read: it is not what its kind says"


@pytest.mark.parametrize("headers", ["[" * 200_000, "[]", "\udcff", "{"])
def test_headers_of_another_form_are_refused_and_no_traceback(db: None, tmp_path: Path, headers: str) -> None:
    sent = tmp_path / "trace.json"
    sent.write_text("{}")
    sent.with_name("trace.json.headers.json").write_bytes(headers.encode("utf-8", "surrogateescape"))
    with pytest.raises(CommandError, match=r"^headers: json object$"):
        call_command("import", "openai_agents", str(sent))


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        *(('{"a": 1, "a": 2}', False), ("1e999", False), (str(2**64), False), ('{"\\ud800": 1}', False)),
        *(("[" * 20_000, False), (str(2**64 - 1), True), ('{"a": ["\\ud83d\\ude00"]}', True)),
    ],
)
def test_the_server_takes_only_the_values_that_the_recorder_takes(
    db: None, outside: FakeWorld, monkeypatch: pytest.MonkeyPatch, text: str, is_taken: bool
) -> None:
    monkeypatch.setattr(FakeProbe, "shows_content", True, raising=False)
    world = make_world()
    branch = fork(world, failed_run(world))
    rule = None
    try:
        edit_value(
            person=world.ada,
            branch=branch,
            state_key="agent_memory",
            target=world.hmac("channel", "limit"),
            text=text,
            edit_class="change_plan",
        )
    except Refused as refused:
        rule = refused.rule
    assert rule == (None if is_taken else "json")
    assert Edit.objects.count() == int(is_taken)
