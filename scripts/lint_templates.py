"""Refuses templates that the content security policy would break, or that could print what nobody proved."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "templates"

RULES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("inline style", re.compile(r"\sstyle\s*=|<style\b", re.IGNORECASE)),
    ("inline event attribute", re.compile(r"""\son[a-z]+\s*=\s*["']""", re.IGNORECASE)),
    ("inline script", re.compile(r"<script\b(?![^>]*\ssrc\s*=)", re.IGNORECASE)),
    ("hx-on", re.compile(r"\b(?:data-)?hx-on\b", re.IGNORECASE)),
    ("script address", re.compile(r"""["'\s]javascript:""", re.IGNORECASE)),
    ("htmx js: expression", re.compile(r"""hx-[a-z-]+\s*=\s*["']\s*js:""", re.IGNORECASE)),
    ("htmx trigger filter", re.compile(r"""hx-trigger\s*=\s*["'][^"']*\[""", re.IGNORECASE)),
    ("unescaped output", re.compile(r"\|\s*safe(?:seq)?\b|{%\s*autoescape\s+off", re.IGNORECASE)),
    ("foreign address", re.compile(r"""\s(?:src|href|action)\s*=\s*["'](?:https?:)?//""", re.IGNORECASE)),
    # Only the badge of an outcome receipt may say this word.
    ("the word of gate 6", re.compile(r"\bVerified\b")),
)
_COMMENT = re.compile(r"{#.*?#}|{%\s*comment.*?endcomment\s*%}|<!--.*?-->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Finding:
    """One place in one template that breaks a rule."""

    path: Path
    line: int
    rule: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule}"


def check_text(text: str, path: Path) -> Iterator[Finding]:
    """Yield what a template's text breaks; comments are not looked at."""
    plain = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    for rule, pattern in RULES:
        for found in pattern.finditer(plain):
            yield Finding(path, plain.count("\n", 0, found.start()) + 1, rule)


def check_folder(folder: Path = TEMPLATES) -> list[Finding]:
    """Return every finding in a folder of templates."""
    return [
        finding
        for path in sorted(folder.rglob("*.html"))
        for finding in check_text(path.read_text(), path.relative_to(folder))
    ]


def main() -> int:
    """Print the findings; 1 where there are any."""
    findings = check_folder()
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
