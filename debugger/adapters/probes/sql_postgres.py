"""Reads the rows of a query from PostgreSQL: one read-only snapshot, counted before a row travels."""

from typing import TYPE_CHECKING, Final

from branches.ports import Target
from debugger.adapters.options import TargetUnfit
from debugger.adapters.outbound import Unreachable
from debugger.adapters.postgres import Snapshot, snapshot
from debugger.adapters.probes.sql_rows import MOST_BYTES, NULL, Cell, Rows

if TYPE_CHECKING:
    from psycopg.pq.abc import PGresult

_PAGE: Final = 500
_USER_TYPES: Final = 16_384  # from here on a type's number differs from database to database
_NUMERIC: Final = 1700
# A column that only became wider holds the same values.
_SORTS: Final = {
    16: b"b",
    17: b"y",
    **dict.fromkeys((20, 21, 23, 26), b"i"),
    **dict.fromkeys((18, 19, 25, 1042, 1043), b"s"),
    700: b"f4",
    701: b"f8",
    _NUMERIC: b"d",
    1082: b"date",
    1083: b"time",
    1114: b"stamp",
    1184: b"moment",
}


def read_postgres(target: Target, query: str, seconds: float, rows: Rows) -> None:
    """Put every row of the query into `rows`. Raises TargetUnfit, Unreachable."""
    try:
        asked = query.rstrip().removesuffix(";").encode()
    except UnicodeEncodeError:
        raise TargetUnfit("query", "text") from None
    if b"\0" in asked:
        raise TargetUnfit("query", "text")
    with snapshot(target, seconds) as opened:
        _weigh(opened, asked, rows.most)
        # A cursor can be declared for a query only: nothing that writes, and never a second statement.
        opened.run(b"DECLARE branchgate_rows NO SCROLL CURSOR FOR " + asked)
        page = opened.texts(b"FETCH %d FROM branchgate_rows" % _PAGE)
        rows.name(page.fname(column) or b"" for column in range(page.nfields))
        sorts = _sorts(opened, [page.ftype(column) for column in range(page.nfields)])
        while page.ntuples:
            _take(page, sorts, rows)
            page = opened.texts(b"FETCH %d FROM branchgate_rows" % _PAGE)


def _weigh(opened: Snapshot, asked: bytes, most: int) -> None:
    """Let the server count rows and bytes first: one value alone could fill the memory here."""
    found = opened.run(
        b"SELECT count(*), coalesce(sum(octet_length(q::text)), 0)::bigint"
        b" FROM (SELECT * FROM (" + asked + b"\n) AS q LIMIT %d) AS q" % (most + 1)
    ).fetchone()
    count, size = found or (0, 0)
    if count > most:
        raise Unreachable("too_many_rows")
    if size > MOST_BYTES:
        raise Unreachable("too_large")


def _sorts(opened: Snapshot, types: list[int]) -> list[bytes]:
    """Return how each column's values are called; types of the database's own go by their names."""
    own = [each for each in types if each >= _USER_TYPES]
    found = (
        opened.run(b"SELECT oid::bigint, typname::text FROM pg_type WHERE oid = ANY(%s)", own) if own else ()
    )
    names = {number: b"own:" + name.encode() for number, name in found}
    return [_SORTS.get(each) or names.get(each) or b"type:%d" % each for each in types]


def _take(page: "PGresult", sorts: list[bytes], rows: Rows) -> None:
    for row in range(page.ntuples):
        rows.add(_cell(sort, page.get_value(row, column)) for column, sort in enumerate(sorts))


def _cell(sort: bytes, content: bytes | None) -> Cell:
    if content is None:
        return NULL
    if sort == b"d" and b"." in content:  # 1.0 and 1.00 are one number
        content = content.rstrip(b"0").removesuffix(b".")
    return sort, content
