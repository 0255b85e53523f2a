"""Nobody here is in a hurry: only a test of a deadline makes one short, and only where it is to run out."""

from collections.abc import Iterator
from importlib import import_module
from typing import Final

import pytest

from debugger.adapters.probes import sql
from tests.patience import PATIENCE_S

# Of the time to connect the system's resolver takes some where there is no network.
_CONNECT_S: Final = 20.0
_DEADLINES: Final = {
    "outbound": ("CONNECT_S", "READ_S"),
    "postgres": ("CONNECT_S",),
    "redis_wire": ("CONNECT_S", "READ_S"),
    "destinations.connections": ("CONNECT_S", "READ_S"),
    "destinations.files": ("READ_S",),
    "destinations.git_commands": ("TIMEOUT_S",),
    "destinations.imap_mailbox": ("READ_S",),
    "destinations.sql_rows": ("QUERY_S",),
    "probes.approval_journal": ("TIMEOUT_S",),
    "probes.branchgate_approvals": ("TOTAL_S",),
    "probes.browser": ("TIMEOUT_S",),
    "probes.files": ("TIMEOUT_S",),
    "probes.git_commands": ("TIMEOUT_S",),
    "probes.http_answer": ("READ_S",),
    "probes.langgraph_file": ("TIMEOUT_S",),
    "probes.langgraph_memory": ("TIMEOUT_S",),
    "probes.mcp_http": ("CONNECT_S", "READ_S"),
    "probes.mcp_session": ("TIMEOUT_S", "READ_S"),
    "probes.openai_agents_memory": ("TIMEOUT_S",),
}


@pytest.fixture(scope="package", autouse=True)
def unhurried() -> Iterator[None]:
    """Give every question as long as a busy machine takes: what answers is to be heard."""
    with pytest.MonkeyPatch.context() as patch:
        for place, names in _DEADLINES.items():
            module = import_module(f"debugger.adapters.{place}")
            for name in names:
                patch.setattr(module, name, _CONNECT_S if name == "CONNECT_S" else PATIENCE_S)
        patch.setattr(sql, "DEFAULT_SECONDS", sql.MOST_SECONDS)
        yield
