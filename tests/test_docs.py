"""Everything a user can set, run, extend or open is documented."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import get_resolver

from branches import ports, registry
from branches.evidence.schema import OUTSIDE_KINDS, PRODUCT_KINDS
from branches.models import Role

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def text(name: str) -> str:
    return (DOCS / name).read_text()


def test_every_setting_is_documented() -> None:
    source = (ROOT / "debugger" / "settings.py").read_text()
    read = set(re.findall(r'environ(?:\.get\(|\[)"([A-Z_]+)"', source))
    read |= set(re.findall(r'_(?:flag|number)\("([A-Z_]+)"', source))
    assert len(read) >= 12
    assert {name for name in read if f"`{name}`" not in text("settings.md")} == set()


def test_no_setting_is_documented_that_does_not_exist() -> None:
    source = (ROOT / "debugger" / "settings.py").read_text()
    documented = re.findall(r"^\| `([A-Z_]+)`", text("settings.md"), re.MULTILINE)
    assert [name for name in documented if name not in source] == []


def test_every_command_is_documented() -> None:
    ours = [name for name, app in get_commands().items() if app == "debugger"]
    assert len(ours) >= 9
    assert [name for name in ours if f"`{name}" not in text("commands.md")] == []


def test_every_port_and_plugin_is_documented() -> None:
    page = text("plugins.md")
    ours = (
        "StateProbe",
        "DestinationQuery",
        "OutcomeVerifier",
        "RuntimeAdapter",
        "RuntimeImporter",
        "Notifier",
    )
    for port in ours:
        assert hasattr(ports, port)
        assert f"`{port}`" in page
    for port in ("runtimes", "importers", "probes", "destinations", "verifiers", "notifiers"):
        names = registry.names(port)  # type: ignore[arg-type]
        assert names, port
        assert f"branchgate.{port}" in page
        assert [name for name in names if f"`{name}`" not in page] == []


def test_every_page_is_documented() -> None:
    page = text("pages.md")
    names = [
        pattern.name
        for resolver in get_resolver().url_patterns
        if "web" in str(getattr(resolver, "urlconf_name", ""))
        for pattern in resolver.url_patterns
    ]
    assert len(names) >= 30
    assert [name for name in names if f"`{name}`" not in page] == []


def test_every_kind_of_receipt_is_documented() -> None:
    page = text("receipts.md")
    assert [kind for kind in sorted(OUTSIDE_KINDS | PRODUCT_KINDS) if f"`{kind}`" not in page] == []


def test_every_role_is_documented() -> None:
    assert [role for role in Role if f"`{role}`" not in text("people.md")] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_no_link_leads_nowhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_nobody_is_let_in_before_there_is_a_database(page: Path) -> None:
    typed = "".join(re.findall(r"```sh\n(.*?)```", page.read_text(), re.DOTALL))
    commands = re.findall(r"manage\.py (serve|admit)\b", typed)
    assert "admit" not in commands or commands[0] == "serve"
    assert "after `manage.py admit" not in page.read_text()


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 90
    assert sum(line.startswith("![") for line in lines) == 1
