"""A command that needs the database, and says in one sentence where it is not there yet."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, ProgrammingError


class DatabaseCommand(BaseCommand):
    """Says which command makes the database, instead of what the database said."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        """Run the command. Raises CommandError where there is no database of ours."""
        try:
            return super().execute(*args, **options)
        except (OperationalError, ProgrammingError) as error:
            if "branches_" not in str(error) and "unable to open" not in str(error):
                raise
            raise CommandError(
                "there is no database yet: start `manage.py serve` or `make demo` once"
            ) from None
