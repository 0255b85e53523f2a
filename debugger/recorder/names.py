"""What the workflow declares, as the recorder needs it; every other name leaves as its keyed digest."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from branches.evidence.ids import is_id
from branches.evidence.keys import HmacKey
from branches.evidence.kinds.forms import Declared
from branches.evidence.names import cover_names

_LISTS: Final[Mapping[Declared, str]] = {
    Declared.AGENT: "agents",
    Declared.TOOL: "tools",
    Declared.MODEL: "models",
    Declared.DESTINATION: "destinations",
    Declared.KIND: "kinds",
    Declared.PHASE: "phases",
    Declared.STATE_KEY: "state_keys",
    Declared.DEPENDENCY: "dependencies",
    Declared.VALIDATOR: "validators",
    Declared.FACT: "facts",
    Declared.REASON: "reasons",
    Declared.OWNER: "owners",
    Declared.CAPABILITY: "capabilities",
}


@dataclass(frozen=True, slots=True)
class ToolRule:
    """What the workflow says of a tool; an undeclared tool is external and `unknown`."""

    destination: str | None
    effect_class: str
    key_fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StateRule:
    """Which probe measures a state key, and on which target."""

    probe: str
    target: str


_UNDECLARED_TOOL: Final = ToolRule(None, "unknown", ())


class RuntimeDiffers(ValueError):
    """The workflow is declared for another runtime than the one that is recorded."""

    field: Final = "runtime"
    rule: Final = "declared_for_another"

    def __init__(self, recorded: str) -> None:
        super().__init__(f"{self.field}: {self.rule} (this recorder records {recorded})")


class Declaration:
    """A published workflow version, as the server gave it: `{"digest", "declaration", "workflow"}`."""

    def __init__(self, published: Mapping[str, Any]) -> None:
        declared: dict[str, Any] = published["declaration"]
        self.digest: str = published["digest"]
        self.uid = next((text for text in published.values() if is_id(text, "wf")), None)
        """The workflow's id (`wf_…`), or None when the server did not say."""
        self.name: str = declared["workflow"]
        self.version: str = declared["version"]
        self.runtime: str = declared["runtime"]
        self.outcome: str = declared["outcome"]["expected"]
        self.agents = frozenset(declared.get("agents", ()))
        self.progress = frozenset(declared.get("progress", ()))
        self.phase: str | None = declared.get("phase")
        self.step_limit: int | None = declared.get("limits", {}).get("steps")
        self.contract: dict[str, Any] | None = declared.get("contract")
        self.kinds: tuple[str, ...] = tuple(declared.get("kinds", ()))
        self.state_keys = {
            name: StateRule(rule["probe"], rule["target"]) for name, rule in declared["state_keys"].items()
        }
        self._tools = {
            name: ToolRule(rule.get("destination"), rule["effect_class"], tuple(rule.get("key_fields", ())))
            for name, rule in declared.get("tools", {}).items()
        }
        self.writing_tools = frozenset(
            name for name, rule in self._tools.items() if rule.effect_class != "read"
        )
        """Every declared tool whose calls may have an effect."""
        self.names = _names(declared)

    @property
    def contract_version(self) -> str | None:
        """The topology contract's version, where there is a contract."""
        return None if self.contract is None else str(self.contract["version"])

    def check_runtime(self, recorded: str) -> None:
        """Check that the workflow is one of the runtime that is recorded. Raises RuntimeDiffers."""
        if self.runtime != recorded:
            raise RuntimeDiffers(recorded)

    def tool(self, name: str) -> ToolRule:
        """Return what is declared of a tool."""
        return self._tools.get(name, _UNDECLARED_TOOL)

    def edge_kind(self, source: str, receiver: str) -> str | None:
        """Return the kind of the only edge the contract has between two agents, else the first kind."""
        edges = self.contract["edges"] if self.contract else ()
        kinds = {edge["kind"] for edge in edges if (edge["from"], edge["to"]) == (source, receiver)}
        if len(kinds) == 1:
            return str(kinds.pop())
        return self.kinds[0] if self.kinds else None

    def has_edge(self, source: str, receiver: str) -> bool:
        """Whether the contract has an edge between two agents, of whichever kind."""
        edges = self.contract["edges"] if self.contract else ()
        return any((edge["from"], edge["to"]) == (source, receiver) for edge in edges)

    def cover(self, receipt: Mapping[str, Any], key: HmacKey) -> dict[str, Any]:
        """Return the receipt with every name that is not declared replaced by its keyed digest."""
        return cover_names(receipt, self.names, key)


def _names(declared: Mapping[str, Any]) -> dict[str, frozenset[str]]:
    names: dict[str, frozenset[str]] = {
        category: frozenset(declared.get(field) or ()) for category, field in _LISTS.items()
    }
    probes = frozenset(rule["probe"] for rule in declared["state_keys"].values())
    facts = declared.get("facts") or {}
    words = facts.values() if isinstance(facts, Mapping) else ()
    return {
        **names,
        Declared.VALIDATOR: names[Declared.VALIDATOR] | names[Declared.DESTINATION],
        Declared.OUTCOME: frozenset({declared["outcome"]["expected"]}),
        Declared.RUNTIME: frozenset({declared["runtime"]}),
        Declared.PROBE: probes,
        Declared.LIMIT: probes,
        Declared.FACT_WORD: frozenset(word for each in words for word in each),
    }
