"""The document verifier over real documents in a folder and over HTTP."""

import itertools
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from branches.ports import Check, OutcomeVerifier, Target
from debugger.adapters.destinations.document import DocumentVerifier
from debugger.adapters.destinations.document_reading import html, markdown
from tests.adapters.places import KEY, MARKER, Web, target
from tests.adapters.talks import NAMED, OPERATION, nothing_of
from tests.patience import PATIENCE_S, ends

MARKDOWN = f"""---
title: {MARKER}
version: 3
---

# Summary

Prices rose [SRC-1], as [the office](https://example.org/SRC-2) says.

Method *and* sums
-----------------

```
# Not a section
SRC-9
```

## Empty

## Parent

### Child

Text. <!-- SRC-8
# Nor this -->

# Outlook ##

More to come.
"""
HTML = f"""<!doctype html><html><head><title>x SRC-9</title><style>h1 {{}}</style></head><body>
<h1>Summary</h1><p>Prices rose <a href="#SRC-1">here</a> {MARKER}</p><!-- SRC-8 <h2>Hidden</h2> -->
<h2>Method <em>and</em>&nbsp;sums</h2><ul><li>SRC-2</li></ul><h2>Empty</h2>
<h2>Parent</h2><h3>Child</h3><p>Text<script>"SRC-7"</script></p><h1>Outlook</h1>More.</body></html>"""
SECTIONS = ["Summary", "method and sums", "Parent", "Child", "Outlook"]


def place(folder: Path, content: str | bytes, terms: dict[str, Any], kind: str = "markdown") -> Target:
    (folder / "report").write_bytes(content if isinstance(content, bytes) else content.encode())
    return target(root=str(folder), path="report", format=kind, expected={"report": terms})


def check(where: Target, base: str | None = None, *keys: str) -> Any:
    return DocumentVerifier().check(where, "report", base, frozenset(keys))


def named(*names: str) -> tuple[str, ...]:
    return tuple(sorted(KEY.digest("name", name) for name in names))


def test_it_fulfils_its_port() -> None:
    assert isinstance(DocumentVerifier(), OutcomeVerifier)
    assert DocumentVerifier.limits.endswith(".")


@pytest.mark.parametrize(("content", "kind"), [(MARKDOWN, "markdown"), (HTML, "html")])
def test_it_passes_a_document_with_its_sections_and_sources(tmp_path: Path, content: str, kind: str) -> None:
    terms = {"sections": SECTIONS, "sources": ["SRC-1", "SRC-2"], "machine_readable": True}
    passed = check(place(tmp_path, content, terms, kind))
    assert (passed.check, passed.fresh, passed.difference) == (Check.PASSED, True, ())
    assert nothing_of(passed, MARKER)


@pytest.mark.parametrize(("content", "kind"), [(MARKDOWN, "markdown"), (HTML, "html")])
def test_it_names_each_section_and_source_that_is_missing(tmp_path: Path, content: str, kind: str) -> None:
    terms = {
        "sections": ["Summary", "Empty", "Not a section", "Nor this", "Hidden"],
        "sources": ["SRC-1", "SRC-7", "SRC-8", "SRC-9", "SRC"],
    }
    failed = check(place(tmp_path, content, terms, kind))
    missing = named("Empty", "Not a section", "Nor this", "Hidden", "SRC-7", "SRC-8", "SRC-9", "SRC")
    assert failed.check is Check.FAILED
    assert failed.difference == ("sections", "sources", *missing)
    assert "SRC" not in repr(failed)


def test_it_reads_front_matter_and_asks_for_its_names(tmp_path: Path) -> None:
    terms = {"machine_readable": True, "front_matter": ["title", "version"]}
    assert check(place(tmp_path, MARKDOWN, terms)).check is Check.PASSED
    failed = check(place(tmp_path, MARKDOWN, {"front_matter": ["title", "author"]}))
    assert failed.difference == ("front_matter", *named("author"))
    for bare in (
        "# Summary\n",
        "---\n[a\n---\n",
        "---\na: 1\n",
        "---\n- a\n---\n",
        "---\na: &x 1\nb: *x\n---\n",
    ):
        assert check(place(tmp_path, bare, terms)).difference[:2] == ("front_matter", "machine_readable")


@pytest.mark.parametrize(
    ("kind", "content", "is_read"),
    [
        ("json", json.dumps({"Summary": "SRC-1", "n": 3}), True),
        ("json", "{", False),
        ("json", "[" * 60_000, False),
        ("json", b"\xff", False),
        ("yaml", "Summary: SRC-1\nn: 3\n", True),
        ("yaml", "a: [", False),
        ("yaml", "a: !!python/object/apply:os.system ['true']", False),
        ("yaml", "a: &a [x]\nb: [*a, *a]", False),
        ("yaml", "[" * 20_000, False),
        ("yaml", "- " * 30_000, False),
        ("yaml", "{a: " * 15_000, False),
        ("html", b"\xff\xfe", False),
    ],
)
def test_what_parses_as_nothing_meets_no_term(
    tmp_path: Path, kind: str, content: str | bytes, is_read: bool
) -> None:
    found = check(place(tmp_path, content, {"machine_readable": True, "sources": ["SRC-1"]}, kind))
    expected = () if is_read else ("machine_readable", "sources")
    assert (found.check, found.difference) == (Check.PASSED if is_read else Check.FAILED, expected)


def test_the_names_at_the_top_are_the_sections_of_what_is_no_text(tmp_path: Path) -> None:
    content = json.dumps({"Summary": {"text": ["SRC-1"]}, "Empty": {}, "Sum": 3, "Nothing": None})
    failed = check(place(tmp_path, content, {"sections": ["summary", "Sum", "Empty", "Nothing"]}, "json"))
    assert failed.difference == ("sections", *named("Empty", "Nothing"))


@pytest.mark.parametrize(
    ("terms", "kind"),
    [
        ({}, "markdown"),
        ({"length": 3}, "markdown"),
        ({"sections": "Summary"}, "markdown"),
        ({"sections": []}, "markdown"),
        ({"sources": [""]}, "markdown"),
        ({"machine_readable": "json"}, "markdown"),
        ({"sections": ["a"]}, "docx"),
    ],
)
def test_it_passes_nothing_by_terms_it_does_not_know(
    tmp_path: Path, terms: dict[str, Any], kind: str
) -> None:
    found = check(place(tmp_path, MARKDOWN, terms, kind))
    assert (found.check, found.problem) == (Check.UNREACHABLE, "target_unfit")


def test_a_document_of_before_the_resume_passes_nothing(tmp_path: Path) -> None:
    where = place(tmp_path, MARKDOWN, {"sections": ["Summary"]})
    base = DocumentVerifier().baseline(where, "report").version
    assert check(where, base).problem == "same_content"
    time.sleep(0.02)
    where = place(tmp_path, MARKDOWN + "More.\n", {"sections": ["Summary"]})
    assert check(where, base).fresh is True
    assert (
        check(
            target(root=str(tmp_path), path="gone", format="html", expected={"report": {"sources": ["a"]}})
        ).problem
        == "nothing_there"
    )


def test_a_document_too_large_or_unreachable_is_no_failure(tmp_path: Path) -> None:
    found = check(place(tmp_path, "# a\n" * 30_000, {"sections": ["a"]}))
    assert (found.check, found.problem) == (Check.UNREACHABLE, "too_large")
    with_key = target(
        url="http://127.0.0.1:9/{operation_key}.md",
        format="markdown",
        expected={"report": {"sources": ["a"]}},
    )
    assert check(with_key, None, OPERATION).check is Check.UNREACHABLE


def test_it_reads_a_document_over_http_by_the_run_s_own_key(tmp_path: Path) -> None:
    web = Web(lambda request: (200, [("Last-Modified", "Mon, 30 Nov 2026 12:00:00 GMT")], MARKDOWN.encode()))
    try:
        where = target(
            url=web.url + "/{operation_key}.md",
            format="markdown",
            expected={"report": {"sections": ["Summary"]}},
            allow="loopback",
        )
        assert check(where, None, OPERATION).check is Check.PASSED
        assert web.paths == [f"/{quote(NAMED)}.md"]
        assert check(where, "1796040000", OPERATION).problem == "none_newer"
    finally:
        web.close()


def test_it_takes_no_long_time_for_what_is_made_to_last() -> None:
    pieces = (
        "<!-- ",
        "# ",
        "<h1>",
        "*_`",
        "---\n",
        "a\n=\n",
        "```\n",
        "- " * 20 + "\n",
        "<a href='",
        "<a ",
        "</",
        "<?",
        "<!x",
        "<a href=",
    )
    with ends(PATIENCE_S):
        for piece, read in itertools.product(pieces, (markdown, html)):
            read(piece * (60_000 // len(piece)))
