"""What the team's workflow declares before any run, and where the plug-ins it names may go."""

from typing import Any, Final

from debugger.demo.layout import DemoWorld
from debugger.demo.script import MODEL, PROMPTS
from debugger.demo.tools_server import VERSION as TOOLS_VERSION

WORKFLOW: Final = "research-desk"
WORKFLOW_VERSION: Final = "1.0.0"
_KINDS: Final = ("delegate", "pass_on", "report_back")
_EDGES: Final = (
    ("orchestrator", "researcher", "delegate"),
    ("researcher", "verifier", "pass_on"),
    ("verifier", "publisher", "pass_on"),
    ("publisher", "orchestrator", "report_back"),
)


def declaration() -> dict[str, Any]:
    """Return what the team's workflow declares before any run."""
    edges = [{"from": source, "to": receiver, "kind": kind} for source, receiver, kind in _EDGES]
    return {
        "workflow": WORKFLOW,
        "version": WORKFLOW_VERSION,
        "runtime": "langgraph",
        "agents": list(PROMPTS),
        "models": [MODEL],
        "roles": list(PROMPTS),
        "kinds": list(_KINDS),
        "phases": ["publish"],
        "phase": "publish",
        "state_keys": {
            "agent_memory": _state_key("langgraph_memory", "memory"),
            "workspace": _state_key("git_workspace", "workspace"),
            "tool_registry": _state_key("mcp_tools", "tools", acknowledgeable=True),
            "browser": _state_key("http_session", "browser", acknowledgeable=True),
            "approval_queue": _state_key("approval_journal", "approvals"),
        },
        "tools": {
            "search_notes": _declared_tool(None, "read", "query"),
            "create_ticket": _declared_tool("desk.tickets", "reversible", "subject"),
            "send_mail": _declared_tool("desk.mail", "irreversible", "recipient", "subject"),
            "create_draft": _declared_tool("desk.drafts", "reversible", "title", "section"),
            "publish_draft": _declared_tool("desk.drafts", "reversible", "draft"),
        },
        "destinations": {
            f"desk.{name}": {"query": "http_json", "target": f"desk-{name}", "fixture": False}
            for name in ("tickets", "mail", "drafts")
        },
        "outcome": {"expected": "report-published", "verifier": "http_json", "target": "desk-reports"},
        "limits": {"max_age_s": 900, "start_s": 60, "steps": 40},
        "progress": ["artifact", "tool_result"],
        "facts": {
            "changed_files": [],
            "operation": ["none", "rebase", "am", "merge", "cherry_pick", "revert", "bisect"],
            "stashes": [],
            "edits": ["none", "intended", "unintended"],
            "tools": [],
            "tool_classes": [],
            "server_version": [TOOLS_VERSION],
            "session": ["anonymous", "signed_in", "expired"],
            "pending": [],
            "resolved": [],
        },
        "contract": {
            "version": "1",
            "agents": list(PROMPTS),
            "edges": edges,
            "phases": {"publish": [f"{source}>{receiver}:{kind}" for source, receiver, kind in _EDGES]},
        },
    }


def server_targets(world: DemoWorld) -> dict[str, dict[str, Any]]:
    """Return where the server's plug-ins may go; the recorder may go everywhere but to the approvals."""
    url = world.desk_url

    def kept(path: str, payload: list[str] | dict[str, list[str]]) -> dict[str, Any]:
        return {
            "url": f"{url}/{path}/{{operation_key}}",
            "found": [200],
            "absent": [404],
            "payload": payload,
            "version": "version",
            "ref": "number",
            "list": {
                "url": f"{url}/{path.partition('/')[0]}",
                "whole": True,
                "items": "items",
                "operation_key": "key",
                "at": "at",
                "ref": "number",
            },
            "allow": "loopback",
        }

    drafts = {"create_draft": ["title", "section", "body"], "publish_draft": ["draft"]}
    return {
        "memory": {"store": str(world.checkpoints), "runtime": "langgraph"},
        "workspace": {"path": str(world.workspace)},
        "tools": {"command": [world.python, "-m", "debugger.demo.tools_server", url]},
        "browser": {
            "base_url": url, "path": "/site", "cookie_file": str(world.cookie_file), "allow": "loopback",
        },
        "approvals": {"path": str(world.approvals)},
        "desk-tickets": kept("tickets/by-key", ["subject", "body"]),
        "desk-mail": kept("mail/by-id", ["recipient", "subject", "body"]),
        "desk-drafts": kept("drafts/by-key", drafts),
        "desk-reports": {
            "latest_url": f"{url}/reports/latest",
            "absent": [404],
            "version": "version",
            "expected": {"report-published": {"kind": "report"}},
            "artifact": ["title", "section", "body"],
            "allow": "loopback",
        },
    }  # fmt: skip


def _state_key(probe: str, target: str, *, acknowledgeable: bool = False) -> dict[str, Any]:
    return {"probe": probe, "target": target, "acknowledgeable": acknowledgeable}


def _declared_tool(destination: str | None, effect_class: str, *key_fields: str) -> dict[str, Any]:
    return {"destination": destination, "effect_class": effect_class, "key_fields": list(key_fields)}
