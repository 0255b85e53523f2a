"""Finds plug-ins by entry point and checks them against the ports."""

from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal, overload

from branches.ports import (
    DestinationQuery,
    Notifier,
    OutcomeVerifier,
    RuntimeAdapter,
    RuntimeImporter,
    StateProbe,
)

type Port = Literal["runtimes", "importers", "probes", "destinations", "verifiers", "notifiers"]

_PORTS: dict[str, type] = {
    "runtimes": RuntimeAdapter,
    "importers": RuntimeImporter,
    "probes": StateProbe,
    "destinations": DestinationQuery,
    "verifiers": OutcomeVerifier,
    "notifiers": Notifier,
}


class PluginMissing(LookupError):
    """No installed package offers this plug-in; `port` and `name` say which."""

    def __init__(self, port: str, name: str) -> None:
        super().__init__(f"no plug-in for {port}: {name}")
        self.port = port
        self.name = name


class PluginUnfit(TypeError):
    """The plug-in lacks something its port requires."""


def names(port: Port) -> tuple[str, ...]:
    """Return the installed plug-ins' names, sorted."""
    return tuple(sorted(point.name for point in entry_points(group=f"branchgate.{port}")))


@overload
def find(port: Literal["runtimes"], name: str) -> RuntimeAdapter: ...
@overload
def find(port: Literal["importers"], name: str) -> RuntimeImporter: ...
@overload
def find(port: Literal["probes"], name: str) -> StateProbe: ...
@overload
def find(port: Literal["destinations"], name: str) -> DestinationQuery: ...
@overload
def find(port: Literal["verifiers"], name: str) -> OutcomeVerifier: ...
@overload
def find(port: Literal["notifiers"], name: str) -> Notifier: ...
def find(port: Port, name: str) -> Any:
    """Return the plug-in, instantiated once; raises PluginMissing or PluginUnfit."""
    return _load(port, name)


@cache
def _load(port: str, name: str) -> Any:
    for point in entry_points(group=f"branchgate.{port}", name=name):
        plugin = point.load()()
        if not isinstance(plugin, _PORTS[port]):
            raise PluginUnfit(f"{port}: {name} does not fulfil its port")
        return plugin
    raise PluginMissing(port, name)
