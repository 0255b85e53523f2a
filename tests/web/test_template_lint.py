"""Templates keep the content security policy, and none prints what only gate 6 may say."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "lint_templates.py"


@pytest.fixture(scope="module")
def linter() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_templates", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_it_finds_nothing_in_the_products_templates(linter: ModuleType) -> None:
    assert [str(finding) for finding in linter.check_folder()] == []
    assert len(list(linter.TEMPLATES.rglob("*.html"))) > 20


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('<p style="color: red">', "inline style"),
        ("<style>p {}</style>", "inline style"),
        ('<a onclick="go()">', "inline event attribute"),
        ("<script>go()</script>", "inline script"),
        ('<a hx-on:click="go()">', "hx-on"),
        ('<a href="javascript:go()">', "script address"),
        ("<a hx-vals='js:{a: 1}'>", "htmx js: expression"),
        ('<a hx-trigger="keyup[key==1]">', "htmx trigger filter"),
        ("{{ text|safe }}", "unescaped output"),
        ("{% autoescape off %}", "unescaped output"),
        ('<script src="https://elsewhere.example/a.js"></script>', "foreign address"),
        ("<b>Verified</b>", "the word of gate 6"),
    ],
)
def test_it_refuses(linter: ModuleType, text: str, rule: str) -> None:
    findings = list(linter.check_text(f"<p>\n{text}", Path("page.html")))
    assert [(finding.line, finding.rule) for finding in findings] == [(2, rule)]


def test_it_does_not_look_into_comments(linter: ModuleType) -> None:
    text = '{# <p style="x"> #}<!-- <script>1</script> -->{% comment %}|safe{% endcomment %}'
    assert list(linter.check_text(text, Path("page.html"))) == []


def test_it_lets_a_script_file_be_loaded(linter: ModuleType) -> None:
    text = """<script defer src="{% static 'js/keys.js' %}"></script>"""
    assert list(linter.check_text(text, Path("page.html"))) == []
