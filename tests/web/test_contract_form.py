"""The form that a contract is written in: nothing typed is lost, and what cannot match is warned of."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from branches.commands.publish_workflow import publish_workflow
from branches.models import Contract
from debugger import contracts as templates
from tests.builders import World, declaration, make_world
from tests.contracts.test_publishing import BACK, MARKER, OUT, begin, contract, edge, publish
from tests.web.cast import signed_in
from tests.web.test_contracts_page import is_draft, typed

WRITTEN = '{"version": "7", "a thought": "half written'
WARNING = "A receipt holds such a name as a keyed digest"


def press(client: Client, button: str, text: str, value: str = "1", **fields: str) -> Any:
    """Send the form by one of its buttons, as a browser does."""
    form = {"workflow": "desk", "contract": text, "template": "handoff", **fields, button: value}
    return client.post("/contracts/", form)


def beside(page: str) -> str | None:
    """Return the pattern that stands beside the form."""
    found = re.search(r'<pre class="content" tabindex="0" aria-label="[^"]*">(.*?)</pre>', page, re.DOTALL)
    return None if found is None else html.unescape(found.group(1))


@pytest.fixture
def desk(world: World) -> World:
    """A workspace with a second workflow, so that the first choice is not the one that is kept."""
    declared = declaration(workflow="another")
    publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=declared)
    return world


def test_its_buttons_belong_to_one_form_that_needs_no_script(ada: Client, world: World) -> None:
    page = ada.get("/contracts/").text
    (pattern,) = re.findall(r"<button[^>]*>Put it in the form</button>", page)
    for part in ('name="put"', 'form="contract-form"', "formnovalidate"):
        assert part in pattern
    assert re.search(r'<select[^>]*name="template" form="contract-form"', page)
    assert re.search(r'<form[^>]*id="contract-form" method="post"', page)


def test_a_pattern_goes_into_an_empty_form(ada: Client, desk: World) -> None:
    page = press(ada, "put", " \r\n", template="maker_checker", draft="on").text
    assert json.loads(typed(page)) == templates.contract("maker_checker")
    assert '<option value="maker_checker" selected>' in page
    assert '<option value="desk" selected>' in page
    assert is_draft(page)
    assert beside(page) is None
    assert not Contract.objects.exists()


def test_a_pattern_stands_beside_what_was_written_until_a_person_replaces_it(
    ada: Client, desk: World
) -> None:
    answer = press(ada, "put", WRITTEN, template="maker_checker", draft="on")
    assert answer.status_code == 200
    page = answer.text
    assert typed(page) == WRITTEN
    assert json.loads(beside(page) or "") == templates.contract("maker_checker")
    assert "What you wrote was kept." in page
    assert '<option value="desk" selected>' in page
    assert is_draft(page)
    # The button names the pattern that is shown, whatever is chosen meanwhile.
    assert '<button class="btn" name="replace" value="maker_checker"' in page
    page = press(ada, "replace", WRITTEN, "maker_checker", template="star").text
    assert json.loads(typed(page)) == templates.contract("maker_checker")
    assert beside(page) is None
    assert not Contract.objects.exists()


def test_one_untouched_pattern_gives_way_to_another(ada: Client, world: World) -> None:
    first = typed(press(ada, "put", "").text)
    sent = first.replace("\n", "\r\n")  # as browsers send lines
    page = press(ada, "put", sent, template="maker_checker").text
    assert json.loads(typed(page)) == templates.contract("maker_checker")
    touched = sent.replace('"version": "1"', '"version": "2"')
    assert touched != sent
    page = press(ada, "put", touched, template="maker_checker").text
    assert typed(page) == touched
    assert beside(page) is not None


@pytest.mark.parametrize("button", ["put", "replace"])
def test_a_pattern_that_is_none_is_refused_and_loses_nothing(ada: Client, world: World, button: str) -> None:
    answer = press(ada, button, WRITTEN, MARKER, template=MARKER)
    assert answer.status_code == 422
    assert "template is not one of the choices" in answer.text
    assert typed(answer.text) == WRITTEN
    assert MARKER not in answer.text


def test_it_is_checked_without_being_published(ada: Client, world: World) -> None:
    page = press(ada, "check", json.dumps(contract())).text
    assert "Its rules hold. Nothing is published yet." in page
    assert json.loads(typed(page)) == contract()
    refused = press(ada, "check", json.dumps(contract("")))
    assert refused.status_code == 422
    assert "contract.version" in refused.text
    assert "Its rules hold" not in refused.text
    assert not Contract.objects.exists()


def test_agents_that_the_workflow_does_not_declare_are_warned_of_and_published(
    ada: Client, world: World
) -> None:
    away = {"from": "publisher", "to": "lawyer", "kind": "delegate"}
    declared = contract("2", OUT, away, agents=["orchestrator", "publisher", "lawyer"])
    page = press(ada, "check", json.dumps(declared)).text
    assert "desk 1.0.0, its newest version, does not declare <code>lawyer</code>." in page
    assert WARNING in page
    assert "Its rules hold" in page  # a warning, and no error
    answer = press(ada, "publish", json.dumps(declared))
    row = Contract.objects.get()
    assert answer["Location"] == f"/contracts/{row.uid}/"
    page = ada.get(answer["Location"]).text
    notice = re.search(r'<p class="notice warning">.*?</p>', page, re.DOTALL)
    assert notice is not None
    assert "It names agents that its workflow does not declare" in notice.group()
    assert '#uncertain"' in notice.group()  # no tick
    assert "does not declare <code>lawyer</code>." in ada.get(f"/contracts/{row.uid}/").text


def test_the_warning_goes_when_a_newer_version_declares_them(ada: Client, world: World) -> None:
    agents = ["orchestrator", "publisher", "lawyer"]
    away = {"from": "publisher", "to": "lawyer", "kind": "delegate"}
    row = publish(world, contract("2", OUT, away, agents=agents))
    assert WARNING in ada.get(f"/contracts/{row.uid}/").text
    newer = declaration(version="1.1.0", agents=agents)
    publish_workflow(workspace=world.workspace, publisher=world.recorder.uid, declaration=newer)
    assert WARNING not in ada.get(f"/contracts/{row.uid}/").text


def test_declared_agents_are_not_warned_of_and_another_workspace_declares_nothing(
    ada: Client, world: World
) -> None:
    elsewhere = make_world("elsewhere", declaration(agents=["orchestrator", "publisher", "lawyer"]))
    assert elsewhere.workflow.name == "desk"
    row = publish(world)
    for page in (
        ada.get(f"/contracts/{row.uid}/").text,
        press(ada, "check", json.dumps(contract())).text,
        ada.get("/contracts/").text,
    ):
        assert WARNING not in page
    declared = contract("3", agents=["orchestrator", "publisher", "lawyer"])
    assert WARNING in press(ada, "check", json.dumps(declared)).text


@pytest.mark.parametrize("agents", [7, [7], [["a"]], {"a": 1}, ["not a name"], None])
def test_what_is_no_list_of_names_is_refused_and_warned_of_in_no_way(
    ada: Client, world: World, agents: Any
) -> None:
    answer = press(ada, "check", json.dumps(contract(agents=agents)))
    assert answer.status_code == 422
    assert WARNING not in answer.text


def drafted_run(world: World) -> str:
    """Return a run with two edges that a draft can hold, and three that it cannot."""
    run = begin(world, None)
    stranger, kind = world.hmac("name", "stranger"), world.hmac("name", "whisper")
    report = world.ingest(
        edge(world, run, OUT),
        edge(world, run, BACK),
        edge(world, run, {**OUT, "to": stranger}),
        edge(world, run, {**OUT, "to": stranger}),
        edge(world, run, {**BACK, "from": stranger, "kind": kind}),
        edge(world, run, {**OUT, "kind": kind}),
    )
    assert not report.refused, report.refused
    return run.uid


def test_a_draft_says_how_many_edges_were_left_out_and_why(ada: Client, world: World) -> None:
    page = ada.get("/contracts/", {"from": drafted_run(world)}).text
    assert len(json.loads(typed(page))["edges"]) == 2
    said = re.sub(r"<[^>]+>", "", page)
    assert "3 edges left out, seen 4 times in all: 2 to or from an agent, 1 of a kind that the" in said
    assert "on record as a keyed digest only" in said


def test_a_draft_of_which_nothing_is_left_out_says_so(ada: Client, world: World) -> None:
    run = begin(world, None)
    world.ingest(edge(world, run, OUT))
    assert "No edge was left out." in ada.get("/contracts/", {"from": run.uid}).text


def test_a_draft_stays_one_of_its_run_through_every_button(ada: Client, world: World) -> None:
    uid = drafted_run(world)
    text = typed(ada.get("/contracts/", {"from": uid}).text)
    for button in ("put", "check", "publish"):  # it has no version yet, so the last two are refused
        page = press(ada, button, text, draft="on", **{"from": uid}).text
        assert f'<input type="hidden" name="from" value="{uid}">' in page
        assert "3 edges left out" in page
        assert json.loads(typed(page)) == json.loads(text)
    named = text.replace('"version": ""', '"version": "seen-1"')
    answer = press(ada, "publish", named, draft="on", **{"from": uid})
    assert "3 edges of the run had been left out of the draft." in ada.get(answer["Location"]).text


def test_a_draft_that_a_pattern_replaced_is_none_of_the_run(ada: Client, world: World) -> None:
    uid = drafted_run(world)
    page = press(ada, "replace", WRITTEN, "handoff", **{"from": uid}).text
    assert 'name="from"' not in page
    assert "left out" not in page


def test_a_run_that_is_not_here_loses_nothing_that_was_written(ada: Client, world: World) -> None:
    elsewhere = begin(make_world("elsewhere"), None)
    for uid in (elsewhere.uid, MARKER, "run_" + "a" * 24):
        answer = press(ada, "check", WRITTEN, **{"from": uid})
        assert answer.status_code == 422
        assert typed(answer.text) == WRITTEN
        assert 'name="from"' not in answer.text


def test_only_an_engineer_is_given_a_form_by_any_button(world: World) -> None:
    rosa = signed_in(world.rosa)
    for button in ("put", "replace", "check"):
        page = press(rosa, button, json.dumps(contract()), "handoff").text
        assert "Engineers publish contracts." in page
        assert "<textarea" not in page
    assert not Contract.objects.exists()
