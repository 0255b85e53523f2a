"""Places behind addresses where operations leave something: tickets, deployments, a resource's state."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from branches.ports import Target
from tests.adapters import test_deployment, test_file_destination
from tests.adapters.places import MARKER, Web, target
from tests.adapters.places_left import TOOL, AtAddress
from tests.adapters.talks import OPERATION, OTHER
from tests.adapters.test_http_json import payload

DIGEST = f"sha256:{sha256(test_file_destination.REPORT).hexdigest()}"


class Tickets(AtAddress):
    kind = "http_json"
    rest = "/tickets/{operation_key}"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.kept: dict[str, dict[str, Any]] = {}
        self.web = Web(self.answer)
        self.held.callback(self.web.close)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        if request.path == "/tickets":
            newest_first = sorted(self.kept.values(), key=lambda each: -each["version"])
            return 200, [], json.dumps(newest_first).encode()
        found = self.kept.get(unquote(request.path.removeprefix("/tickets/")))
        return (404, [], b"{}") if found is None else (200, [], json.dumps(found).encode())

    def target(self, **changes: Any) -> Target:
        url = str(changes.get("url", self.web.url + self.rest))
        every = url.removesuffix("/{operation_key}")
        listed = {"url": every, "whole": True, "ref": "id", "at": "at", "operation_key": "key"}
        options: dict[str, Any] = {
            "url": url,
            "absent": [404],
            "payload": ["subject"],
            "version": "version",
            "ref": "id",
        }
        options |= {"operation_key": "key", "list": listed, "allow": "loopback"}
        return target(**{**options, **changes})

    @property
    def sent(self) -> str:
        return payload({"subject": MARKER}, TOOL)

    def put(self, key: str = OPERATION, subject: str = MARKER) -> None:
        at = datetime.now(UTC).isoformat()
        number = len(self.kept) + 1
        self.kept[key] = {"id": number, "key": key, "subject": subject, "version": number, "at": at}

    def put_other(self) -> None:
        self.put(subject=f"other {MARKER}")


class TicketsUnlisted(Tickets):
    lists = False

    def target(self, **changes: Any) -> Target:
        options = {name: value for name, value in super().target(**changes).options.items() if name != "list"}
        return target(**options)


class NewestTicket(Tickets):
    """The same as a verifier looks at it: the newest first."""

    option = "latest_url"
    rest = "/tickets"

    def target(self, **changes: Any) -> Target:
        options: dict[str, Any] = {"latest_url": self.web.url + self.rest, "items": ".", "version": "version"}
        options |= {"operation_key": "key", "artifact": ["subject"], "allow": "loopback"}
        options["expected"] = {"done": {"subject": MARKER, "id": 2}}
        return target(**{**options, **changes})


class Store(AtAddress):
    kind = "file"
    lists = False
    rest = "/bucket/{operation_key}.json"
    expected = "report"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.store = test_file_destination.Store()
        self.held.callback(self.store.web.close)

    def target(self, **changes: Any) -> Target:
        options: dict[str, Any] = {"payload": ["title"], "fields": {"title": "json.title"}}
        options["expected"] = {"report": {"content_type": "application/json", "digest": DIGEST}}
        return self.store.target(**{**options, **changes})

    @property
    def sent(self) -> str:
        return payload({"title": MARKER}, TOOL)

    def put(self, key: str = OPERATION) -> None:
        self.store.now += timedelta(seconds=1)
        self.store.put(name=key.replace(":", "-"))

    def put_other(self) -> None:
        other = json.dumps({"title": f"other {MARKER}"}).encode()
        self.store.now += timedelta(seconds=1)
        self.store.put(other)


class Deployment(AtAddress):
    """Each deployment has an address of its own; what stands there names its region."""

    kind = "deployment"
    lists = False
    option = "version_url"
    rest = "/version/{operation_key}"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.kept: dict[str, dict[str, Any]] = {}
        self.web = Web(self.answer)
        self.held.callback(self.web.close)

    def answer(self, request: Any) -> tuple[int, list[tuple[str, str]], bytes]:
        found = self.kept.get(unquote(request.path.removeprefix("/version/")))
        return (404, [], b"") if found is None else (200, [], json.dumps(found).encode())

    def target(self, **changes: Any) -> Target:
        options = {"version_url": self.web.url + self.rest, "version": "version", "absent": [404]}
        options |= {"payload": ["version", "region"], "allow": "loopback"}
        return target(**{**options, **changes})

    @property
    def sent(self) -> str:
        return payload({"version": "1.10.0", "region": MARKER}, TOOL)

    def put(self, key: str = OPERATION) -> None:
        self.kept[key] = {"version": "1.10.0", "region": MARKER}

    def put_other(self) -> None:
        self.kept[OPERATION] = {"version": "1.9.0", "region": MARKER}


class Standing(AtAddress):
    """One address, at which the newest deployment stands: healthy, and shown to its users."""

    kind = "deployment"
    option = "version_url"
    rest = "/version"
    expected = "live"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.site = test_deployment.Site()
        self.held.callback(self.site.web.close)
        self.number = 0

    def target(self, **changes: Any) -> Target:
        return self.site.target(**changes)

    def put(self, key: str = OPERATION, region: str = MARKER) -> None:
        self.number += 1
        version = f"1.{self.number}.0"
        self.site.version = {"version": version, "key": key, "region": region}
        self.site.page = (200, f"<p>{version} {MARKER}</p>".encode())

    def put_other(self) -> None:
        self.put(region=f"other {MARKER}")


class Resource(AtAddress):
    """An order that is open, then paid."""

    kind = "http"
    rest = "/order/7"

    def __init__(self, folder: Path, request: pytest.FixtureRequest) -> None:
        super().__init__(folder, request)
        self.shown = {"state": "open", "by": MARKER, "key": None}
        self.web = Web(lambda _: (200, [], json.dumps(self.shown).encode()))
        self.held.callback(self.web.close)

    def target(self, **changes: Any) -> Target:
        options: dict[str, Any] = {
            "url": self.web.url + self.rest,
            "operation_key": "key",
            "allow": "loopback",
        }
        options["expected"] = {"done": {"values": {"state": "paid", "by": MARKER}}}
        return target(**{**options, **changes})

    def older(self) -> None:
        self.shown = {"state": "open", "by": MARKER, "key": OTHER}

    def put(self, key: str = OPERATION, state: str = "paid") -> None:
        self.shown = {"state": state, "by": MARKER, "key": key}

    def put_other(self) -> None:
        self.put(state="refunded")
