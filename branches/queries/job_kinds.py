"""The kinds of jobs that pages ask for by name."""

from typing import Final

from branches.models import JobKind

VERIFY: Final = JobKind.VERIFY_RECEIPTS
IMPORT: Final = JobKind.IMPORT_THREAD
