"""A document, in a folder or a store, looked at for its sections, its sources and its form.

Options: `root` and `path`, or `url`, as file has them, with or without `{operation_key}`; `format`
("markdown", "html", "json" or "yaml"); `expected` (expected outcome -> terms, each optional): `sections`
(names of headings, or of the names at the top of JSON and YAML, that must be there and hold something),
`sources` (ids, each of which must be cited), `machine_readable` (true: it parses as what it is; Markdown has
front matter), `front_matter` (names that it must give a value).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from branches.ports import Baseline, OutcomeCheck, Target
from debugger.adapters.answers import baseline_of, check_of
from debugger.adapters.destinations import artifact_outcome, document_reading
from debugger.adapters.destinations.document_reading import Reading, plain
from debugger.adapters.destinations.rebuilt import name_of
from debugger.adapters.destinations.stores import Seen
from debugger.adapters.options import TargetUnfit, text, texts
from debugger.adapters.outbound import Unreachable

_TERMS: Final = frozenset({"sections", "sources", "machine_readable", "front_matter"})
_READERS: Final[dict[str, Callable[[str], Reading]]] = {
    "markdown": document_reading.markdown,
    "html": document_reading.html,
    "json": lambda written: document_reading.structured(document_reading.json_value(written)),
    "yaml": lambda written: document_reading.structured(document_reading.yaml_value(written)),
}


class DocumentVerifier:
    """Looks whether a newer document has the sections, sources and form that were expected."""

    limits = (
        "It proves that sections, citations and form are there, not that what they say is true or supported."
    )

    def baseline(self, target: Target, expected: str) -> Baseline:
        """Return when the document was written, with a word for its content."""
        del expected
        return baseline_of(lambda: artifact_outcome.baseline(target))

    def check(
        self,
        target: Target,
        expected: str,
        baseline_version: str | None,
        operation_keys: frozenset[str] = frozenset(),
    ) -> OutcomeCheck:
        """Return passed and fresh only for a newer document that meets every term."""
        return check_of(
            lambda: artifact_outcome.checked(
                target, expected, baseline_version, operation_keys, _TERMS, _differing
            )
        )


def _differing(target: Target, seen: Seen, wanted: Mapping[str, Any]) -> list[str]:
    """Return the terms that are not met: a word for each, and the HMAC of each name that is missing."""
    reading = _reading(target, seen)
    if reading is None:  # no document of its format: then it has none of what was expected
        return sorted(wanted)
    missing = {term: _missing(reading, term, value) for term, value in wanted.items()}
    if (
        wanted.get("machine_readable") is True
        and text(target, "format") == "markdown"
        and reading.front is None
    ):
        missing["machine_readable"] = [""]
    words = sorted(term for term, names in missing.items() if names)
    names = {name_of(target, each) for several in missing.values() for each in several if each}
    return [*words, *sorted(names)]


def _reading(target: Target, seen: Seen) -> Reading | None:
    reader = _READERS.get(text(target, "format"))
    if reader is None:
        raise TargetUnfit("format", "known")
    try:
        return reader(seen.artifact.whole.decode("utf-8"))
    except UnicodeDecodeError:
        return None
    except Unreachable as error:
        if error.problem == "unparsable":
            return None
        raise


def _missing(reading: Reading, term: str, value: Any) -> list[str]:
    """Return the names that one term asks for in vain. Raises TargetUnfit for a term of the wrong form."""
    if term == "machine_readable":
        if not isinstance(value, bool):
            raise TargetUnfit("expected", term)
        return []
    names = texts(value, "expected")
    if not names or not all(names):
        raise TargetUnfit("expected", term)
    if term == "sections":
        there = reading.sections()
        return [name for name in names if plain(name) not in there]
    if term == "sources":
        return [name for name in names if not reading.cites(name)]
    front = reading.front or {}
    return [name for name in names if front.get(name) in (None, "", [], {})]
