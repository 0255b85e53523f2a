"""Whether a state key's drift may be accepted at all: what its probe says, whatever a workflow allows."""

from branches.registry import PluginMissing, PluginUnfit, find


def is_never_acknowledgeable(probe: str) -> bool:
    """Whether a probe says that no person may accept its drift; one that is not installed says nothing."""
    try:
        return getattr(find("probes", probe), "acknowledgeable", True) is False
    except (PluginMissing, PluginUnfit):
        return False
