"""Inserts many receipts at once; the hot path of ingest."""

from collections.abc import Sequence
from typing import NamedTuple

from django.db import connection

from branches.models import Receipt


class NewReceipt(NamedTuple):
    """A row about to be inserted: plain values in the table's order, since a model instance costs as much."""

    run_id: int
    seq: int
    event_id: str
    writer: str
    kind: str
    subject: str | None
    digest: str
    bytes: str


def insert_receipts(rows: Sequence[NewReceipt]) -> None:
    """Insert rows with one prepared statement; the caller has looked for duplicates under the lock."""
    if not rows:
        return
    marks = ", ".join(["%s"] * len(NewReceipt._fields))
    columns = ", ".join(NewReceipt._fields)
    sql = f"INSERT INTO {Receipt._meta.db_table} ({columns}) VALUES ({marks})"  # noqa: S608 - constant names
    with connection.cursor() as cursor:
        cursor.executemany(sql, rows)
