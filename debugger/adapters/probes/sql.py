"""The rows of a declared query, in PostgreSQL or SQLite: read-only, counted, hashed in no order."""

from typing import Final

from branches.evidence.domains import STATE
from branches.ports import Moment, StateMeasurement, Target
from debugger.adapters.answers import unfit_measurement
from debugger.adapters.options import TargetUnfit, text
from debugger.adapters.outbound import Unreachable
from debugger.adapters.probes.no_journal import NoJournal
from debugger.adapters.probes.sql_postgres import read_postgres
from debugger.adapters.probes.sql_rows import Rows
from debugger.adapters.probes.sql_sqlite import read_sqlite
from debugger.adapters.servers import seconds, whole

MOST_ROWS: Final = 100_000
DEFAULT_ROWS: Final = 10_000
MOST_SECONDS: Final = 10
DEFAULT_SECONDS: Final = 5
_SQLITE: Final = "sqlite:"


class SqlProbe(NoJournal):
    """Options: `url` (`postgres://user@host:port/database`, or `sqlite:///` and a whole path), `query`.

    Besides: `password_env` (the password's environment variable), `allow`, `timeout_s` (5, at most 10) and
    `most_rows` (10 000, at most 100 000).
    """

    limits = (
        "Only what the declared query returns is compared, in one snapshot and without its order; other"
        " tables, sequences, locks, and transactions that are still open are not seen."
    )
    remedy = "Put the rows back as they were, or fork from a checkpoint after they changed."

    def measure(self, target: Target, moment: Moment) -> StateMeasurement:
        """Run the query once where nothing can be written, and hash its rows."""
        del moment
        try:
            rows = Rows(whole(target, "most_rows", DEFAULT_ROWS, MOST_ROWS))
            query = text(target, "query")
            limit = seconds(target, "timeout_s", DEFAULT_SECONDS, MOST_SECONDS)
            read = read_sqlite if text(target, "url").startswith(_SQLITE) else read_postgres
            read(target, query, limit, rows)
        except TargetUnfit as error:
            return unfit_measurement(error)
        except Unreachable as error:
            return StateMeasurement(None, reachable=False, problem=error.problem)
        return StateMeasurement(target.key.digest(STATE, b"sql\0" + rows.digest()), {"rows": rows.count})
