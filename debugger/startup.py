"""What happens before anything is served: migrate as the owner, guard the record, check."""

import logging

from django.conf import settings
from django.core.checks import Critical, run_checks
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper

from branches.append_only import guarded_tables

log = logging.getLogger(__name__)


def prepare(*, quiet: bool = True) -> None:
    """Migrate, install the guards and refuse to start where one is missing."""
    alias = "owner" if "owner" in settings.DATABASES else "default"
    call_command("migrate", database=alias, verbosity=0 if quiet else 1, interactive=False)
    if alias == "owner":
        _grant_to_application()
    elif connections["default"].vendor == "postgresql":
        log.warning("One database role: the application could drop the guards. Set DATABASE_OWNER_URL.")
    problems = [problem for problem in run_checks(databases=["default"]) if isinstance(problem, Critical)]
    if problems:
        raise CommandError("; ".join(problem.msg for problem in problems))


def _grant_to_application() -> None:
    """Let the application insert and select; where the record lies it may do no more."""
    role = settings.DATABASES["default"]["USER"]
    # In one transaction, so that at no moment the application may do more than that.
    with transaction.atomic(using="owner"), connections["owner"].cursor() as cursor:
        cursor.execute(f'GRANT USAGE ON SCHEMA public TO "{role}"')
        cursor.execute(f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{role}"')
        cursor.execute(f'GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO "{role}"')
        for table in (*(guarded.table for guarded in guarded_tables()), "django_migrations"):
            cursor.execute(f'REVOKE UPDATE, DELETE, TRUNCATE ON {table} FROM "{role}"')
        _forbid_temporary_tables(cursor, role)


def _forbid_temporary_tables(cursor: CursorWrapper, role: str) -> None:
    """Take from everybody what the application never uses: tables that hide others from its own session."""
    if not _may_make_temporary_tables(cursor, role):
        return
    cursor.execute("SELECT quote_ident(current_database())")
    (database,) = cursor.fetchone()
    cursor.execute(f'REVOKE TEMPORARY ON DATABASE {database} FROM PUBLIC, "{role}"')
    if _may_make_temporary_tables(cursor, role):
        # PostgreSQL only warns where the owner of the tables does not own the database.
        log.warning("The application may make temporary tables: let the database's owner revoke TEMPORARY.")


def _may_make_temporary_tables(cursor: CursorWrapper, role: str) -> bool:
    cursor.execute("SELECT has_database_privilege(%s, current_database(), 'TEMPORARY')", [role])
    return bool(cursor.fetchone()[0])
