"""Every place that the contract of probes is tried on: at least one for each probe that is built in."""

from importlib.metadata import entry_points

from tests.adapters.places import Place, Registry, Repository, Site
from tests.adapters.places_approvals import Approvals
from tests.adapters.places_files import Folder, Secret, ToolsFile
from tests.adapters.places_journals import LongQueue, LongSqliteQueue
from tests.adapters.places_pages import Resource, ShopPage, ToolsServer
from tests.adapters.places_runtimes import Interrupts, Memory, PostgresMemory, RunState, SavedRuns
from tests.adapters.places_stores import PostgresRows, RedisList, RedisStream, SqliteRows

PLACES: tuple[type[Place], ...] = (
    *(
        Repository,
        Site,
        LongQueue,
        LongSqliteQueue,
        Memory,
        PostgresMemory,
        SavedRuns,
        Interrupts,
        RunState,
        Approvals,
        Folder,
        Secret,
    ),
    *(ToolsFile, Registry, ToolsServer, Resource, ShopPage, SqliteRows, PostgresRows, RedisList, RedisStream),
)


def built_in(port: str) -> tuple[str, ...]:
    """The names of this package's own plug-ins for a port, as they are registered."""
    points = entry_points(group=f"branchgate.{port}")
    return tuple(sorted(each.name for each in points if each.value.startswith("debugger.adapters.")))
