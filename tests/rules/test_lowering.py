"""What a newer declaration asks less for: told by its field, and nothing that asks as much or more."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from branches.rules.lowering import (
    DeclaredDestination,
    DeclaredReach,
    DeclaredTool,
    lowered,
    lowered_beside,
    lowered_places,
)

_MAIL = DeclaredDestination("imap", "mailbox", is_fixture=False)
_DESK = DeclaredDestination("http_json", "desk", is_fixture=False)
_LOCAL = DeclaredDestination("file", "drafts", is_fixture=True)
_UNTIL = datetime(2027, 1, 1, tzinfo=UTC)


def reach(tools: dict[str, DeclaredTool] | None = None, **destinations: DeclaredDestination) -> DeclaredReach:
    declared = {
        "send": DeclaredTool("irreversible", "mail"),
        "file": DeclaredTool("reversible", "desk"),
        "look": DeclaredTool("read", "desk"),
        "draft": DeclaredTool("reversible", "local"),
        **(tools or {}),
    }
    return DeclaredReach(declared, {"mail": _MAIL, "desk": _DESK, "local": _LOCAL, **destinations})


def without(tool: str) -> DeclaredReach:
    whole = reach()
    return replace(whole, tools={name: each for name, each in whole.tools.items() if name != tool})


@pytest.mark.parametrize(
    ("after", "fields"),
    [
        (reach(), ()),
        (reach({"send": DeclaredTool("reversible", "mail")}), ("tools.send.effect_class",)),
        (reach({"send": DeclaredTool("unknown", "mail")}), ()),
        (reach({"file": DeclaredTool("read", "desk")}), ("tools.file.effect_class",)),
        (reach({"file": DeclaredTool("irreversible", "desk")}), ()),
        (reach({"send": DeclaredTool("irreversible", None)}), ("tools.send.destination",)),
        (reach({"draft": DeclaredTool("read", "local")}), ()),
        (reach({"new": DeclaredTool("irreversible", "mail")}), ()),
        (without("send"), ("tools.send",)),
        (without("look"), ("tools.look",)),
        (reach({"look": DeclaredTool("read", None)}), ("tools.look.destination",)),
        (reach({"look": DeclaredTool("read", "local")}), ("tools.look.destination",)),
        (reach({"look": DeclaredTool("read", "mail")}), ()),
        (without("draft"), ()),
        (
            reach(mail=replace(_MAIL, is_fixture=True)),
            ("destinations.mail.fixture", "tools.send.destination"),
        ),
        (reach(mail=replace(_MAIL, query="file")), ("destinations.mail.query",)),
        (reach(mail=replace(_MAIL, target="another")), ("destinations.mail.target",)),
        (reach(local=replace(_LOCAL, is_fixture=False)), ()),
        (reach(local=replace(_LOCAL, is_fixture=False, target="real")), ()),
        (reach(local=replace(_LOCAL, target="mailbox")), ("destinations.local.target",)),
        (reach(local=replace(_LOCAL, query="imap")), ("destinations.local.query",)),
        (
            reach(mail=replace(_MAIL, accepted=frozenset({"absent"}), accepted_until=_UNTIL)),
            ("destinations.mail.accept",),
        ),
    ],
)
def test_it_names_what_a_version_lowers(after: DeclaredReach, fields: tuple[str, ...]) -> None:
    assert lowered(reach(), after) == fields


@pytest.mark.parametrize(
    ("answers", "year", "is_lower"),
    [
        ({"absent", "present"}, 2027, False),
        ({"absent"}, 2027, False),
        (set(), 2029, False),
        ({"absent", "present", "reverted"}, 2027, True),
        ({"absent"}, 2028, True),
    ],
)
def test_answers_that_need_no_person_may_become_fewer_and_end_sooner(
    answers: set[str], year: int, is_lower: bool
) -> None:
    before = replace(_MAIL, accepted=frozenset({"absent", "present"}), accepted_until=_UNTIL)
    until = datetime(year, 1, 1, tzinfo=UTC) if answers else None
    after = replace(_MAIL, accepted=frozenset(answers), accepted_until=until)
    found = lowered(reach(mail=before), reach(mail=after))
    assert found == (("destinations.mail.accept",) if is_lower else ())


def test_a_place_is_one_by_whatever_name_it_is_written_to() -> None:
    known = [_MAIL, _LOCAL]
    accepting = replace(_MAIL, accepted=frozenset({"absent"}), accepted_until=_UNTIL)
    for new, fields in (
        (replace(_MAIL, is_fixture=True), ("destinations.drafts.fixture",)),
        (accepting, ("destinations.drafts.accept",)),
        (_MAIL, ()),
        (_LOCAL, ()),
        (replace(_MAIL, target="another", is_fixture=True), ()),
    ):
        assert lowered_places(known, DeclaredReach({}, {"drafts": new})) == fields


@pytest.mark.parametrize(
    ("tools", "destinations", "fields"),
    [
        ({}, {"mail": replace(_MAIL, is_fixture=True)}, ("destinations.mail.fixture",)),
        ({"send": DeclaredTool("irreversible", "sand")}, {"sand": _LOCAL}, ("tools.send.destination",)),
        ({"look": DeclaredTool("read", "sand")}, {"sand": _LOCAL}, ("tools.look.destination",)),
        ({"send": DeclaredTool("read", None)}, {}, ("tools.send.effect_class",)),
        ({"send": DeclaredTool("unknown", None)}, {}, ()),
        ({"draft": DeclaredTool("read", None)}, {}, ()),
        ({"other": DeclaredTool("read", None)}, {}, ()),
    ],
)
def test_of_another_workflow_names_of_places_and_tools_count(
    tools: dict[str, DeclaredTool], destinations: dict[str, DeclaredDestination], fields: tuple[str, ...]
) -> None:
    assert lowered_beside(reach(), DeclaredReach(tools, destinations)) == fields
