"""The code of a page of the documentation, as somebody would copy it."""

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str) -> list[str]:
    """Return every block of a language, in the page's order."""
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
