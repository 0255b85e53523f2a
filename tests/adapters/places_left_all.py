"""Every place that the contracts of destinations and of verifiers are tried on."""

from tests.adapters.places_left import Place
from tests.adapters.places_left_at_addresses import (
    Deployment,
    NewestTicket,
    Resource,
    Standing,
    Store,
    Tickets,
    TicketsUnlisted,
)
from tests.adapters.places_left_in_git import Ref, RefOverHttp, Trailer
from tests.adapters.places_left_in_stores import (
    Document,
    Folder,
    Mailbox,
    OneFile,
    PostgresRows,
    SqliteRows,
)

DESTINATIONS: tuple[type[Place], ...] = (
    *(Tickets, TicketsUnlisted, Ref, RefOverHttp, Trailer, Mailbox, SqliteRows, PostgresRows),
    *(Folder, Store, Deployment),
)
VERIFIERS: tuple[type[Place], ...] = (
    *(NewestTicket, Ref, RefOverHttp, Trailer, Mailbox, SqliteRows, PostgresRows),
    *(Folder, OneFile, Store, Document, Standing, Resource),
)
