"""The pages of contracts: the list, the form from a pattern or a run, one laid out; no script needed."""

import html
import json
import re
from typing import Any

import pytest
from django.test import Client

from branches.evidence import ids
from branches.models import Contract
from debugger import contracts as templates
from tests.builders import World, make_world
from tests.contracts.test_publishing import BACK, MARKER, OUT, begin, contract, edge, publish, with_own
from tests.web.cast import signed_in


def typed(page: str) -> str:
    """Return what stands in the form's text field."""
    found = re.search(r'<textarea id="contract"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    assert found is not None
    return html.unescape(found.group(1))


def is_draft(page: str) -> bool:
    return 'name="draft" checked' in page


def send(client: Client, declared: Any, **changes: Any) -> Any:
    text = declared if isinstance(declared, str) else json.dumps(declared)
    return client.post("/contracts/", {"workflow": "desk", "contract": text, **changes})


def test_it_says_so_where_nothing_is_published(ada: Client) -> None:
    page = ada.get("/contracts/").text
    assert "No contract is published yet." in page
    assert typed(page) == ""
    assert not is_draft(page)


def test_a_contract_is_published_and_laid_out(ada: Client, world: World) -> None:
    quorum = {"into": "publisher", "kind": "delegate", "of": ["orchestrator"], "at_least": 1}
    declared = contract("2", {**OUT, "max": 3}, BACK, quorums=[quorum])
    declared["phases"] = {"publish": [["orchestrator>publisher:delegate", "publisher>orchestrator:delegate"]]}
    answer = send(ada, declared)
    row = Contract.objects.get()
    assert (answer.status_code, answer["Location"]) == (302, f"/contracts/{row.uid}/")
    page = ada.get(answer["Location"]).text
    assert "Published. Runs that start from now on may name it" in page
    assert "Frozen with 0 runs so far" in page
    assert page.count('class="cell v-unseen"') == 3  # two edges and the legend
    assert '<svg class="topo"' in page
    assert "one of <code>orchestrator&gt;publisher:delegate</code>" in page
    assert "1 of 1 report to <code>publisher</code>" in page
    assert row.digest in page
    begin(world, "2")
    assert "Frozen with 1 run so far" in ada.get(answer["Location"]).text


def test_a_version_that_the_workflow_declares_itself_says_that_it_does_not_count(
    ada: Client, world: World
) -> None:
    row = publish(world)
    words = "declares a contract 2 itself"
    assert words not in ada.get(f"/contracts/{row.uid}/").text
    with_own(world, contract("2", BACK))
    assert words in ada.get(f"/contracts/{row.uid}/").text


def test_the_list_says_what_each_version_is_and_who_published_it(ada: Client, world: World) -> None:
    row = publish(world)
    publish(world, contract("3"), publisher=world.recorder.token.uid)
    publish(world, contract("4"), publisher=world.workspace.uid, is_draft=True)
    page = ada.get("/contracts/").text
    assert f'href="/contracts/{row.uid}/"' in page
    assert [page.index(each) for each in (">4</a>", ">3</a>", ">2</a>")] == sorted(
        page.index(each) for each in (">4</a>", ">3</a>", ">2</a>")
    )
    assert page.count('<span class="two">draft: it blesses nothing</span>') == 1
    for name in (world.ada.username, "token recorder", "the command line"):
        assert f"<td>{name}</td>" in page


def test_a_draft_is_marked_on_its_page(ada: Client) -> None:
    page = ada.get(send(ada, contract(), draft="on")["Location"]).text
    assert "Draft: it blesses nothing. No run is judged by it." in page
    assert Contract.objects.get().is_draft


@pytest.mark.parametrize("name", templates.names())
def test_every_pattern_fills_the_form_and_can_be_published_from_it(ada: Client, name: str) -> None:
    page = ada.get("/contracts/", {"template": name}).text
    assert json.loads(typed(page)) == templates.contract(name)
    assert f'<option value="{name}" selected>' in page
    assert not is_draft(page)
    assert send(ada, typed(page)).status_code == 302


def test_a_runs_edges_fill_the_form_as_a_draft_without_a_version(ada: Client, world: World) -> None:
    run = begin(world, None)
    stranger = world.hmac("name", "stranger")
    report = world.ingest(
        edge(world, run, OUT),
        edge(world, run, OUT),
        edge(world, run, BACK),
        edge(world, run, {**OUT, "to": stranger}),
    )
    assert not report.refused
    assert f"/contracts/?from={run.uid}#publish" in ada.get(f"/runs/{run.uid}/audits/").text
    page = ada.get("/contracts/", {"from": run.uid}).text
    assert json.loads(typed(page)) == {
        "version": "",
        "agents": ["orchestrator", "publisher"],
        "edges": [{**OUT, "max": 2}, {**BACK, "max": 1}],
        "phases": {"publish": ["orchestrator>publisher:delegate", "publisher>orchestrator:delegate"]},
    }
    assert is_draft(page)
    assert "1 edge left out" in page
    assert stranger not in page
    assert '<option value="desk" selected>' in page
    refused = send(ada, typed(page), draft="on")
    assert refused.status_code == 422
    assert "contract.version" in refused.text
    named = typed(page).replace('"version": ""', '"version": "seen-1"')
    assert send(ada, named, draft="on").status_code == 302
    assert Contract.objects.get().is_draft


def test_what_is_not_there_fills_no_form(ada: Client, world: World) -> None:
    elsewhere = begin(make_world("elsewhere"), None)
    for query in (
        {"template": MARKER},
        {"template": "../handoff"},
        {"from": MARKER},
        {"from": ids.mint("run")},
        {"from": elsewhere.uid},
    ):
        answer = ada.get("/contracts/", query)
        assert answer.status_code == 404
        assert MARKER not in answer.text


REFUSED = [
    (contract(edges=[{**OUT, "to": "*"}]), "contract.edges.0.to", "is not an agent of the contract"),
    (contract(""), "contract.version", "pattern:version"),
    ("not JSON", "contract", "has to be JSON"),
    ("[]", "contract", "type:object"),
    ("", "contract", "json"),
    ('{"version": "1", "version": "1"}', "contract", "duplicate_key"),
    ('{"version": 1.5}', "contract", "float"),
    ("[" * 5000, "contract", "json"),
    ('{"version": "' + "1" * 70_000 + '"}', "contract", "max_bytes"),
    (" " * 600_000, "contract", "max_bytes"),
]


@pytest.mark.parametrize(("declared", "field", "rule"), REFUSED, ids=range(len(REFUSED)))
def test_an_error_names_field_and_rule_and_keeps_what_was_typed(
    ada: Client, declared: Any, field: str, rule: str
) -> None:
    text = declared if isinstance(declared, str) else json.dumps(declared)
    answer = send(ada, text, draft="on")
    assert answer.status_code == 422
    alert = re.search(r'<p class="notice error" role="alert">.*?</p>', answer.text, re.DOTALL)
    assert alert is not None
    assert field in alert.group()
    assert rule in alert.group()
    assert typed(answer.text) == text
    assert is_draft(answer.text)
    assert not Contract.objects.exists()


def test_other_bytes_under_a_published_version_are_refused_in_words(ada: Client, world: World) -> None:
    publish(world)
    answer = send(ada, contract("2", BACK))
    assert answer.status_code == 422
    assert "that version is published already and never changes" in answer.text


def test_ten_megabytes_are_refused_before_they_are_read(ada: Client) -> None:
    assert send(ada, "x" * (10 << 20)).status_code in {400, 413}
    assert not Contract.objects.exists()


def test_what_was_typed_is_never_markup(ada: Client) -> None:
    answer = send(ada, "</textarea><script>alert(1)</script>")
    assert "<script>alert" not in answer.text


def test_only_an_engineer_is_shown_the_form_and_may_publish(world: World) -> None:
    rosa = signed_in(world.rosa)
    page = rosa.get("/contracts/").text
    assert "Engineers publish contracts." in page
    assert "<textarea" not in page
    answer = send(rosa, contract())
    assert answer.status_code == 422
    assert "this needs the role engineer" in answer.text
    run = begin(world, None)
    world.ingest(edge(world, run, OUT))
    assert "Draft a contract" not in rosa.get(f"/runs/{run.uid}/audits/").text
    assert not Contract.objects.exists()


def test_another_workspaces_contract_is_not_there(ada: Client) -> None:
    row = publish(make_world("elsewhere"))
    assert ada.get(f"/contracts/{row.uid}/").status_code == 404
    assert row.uid not in ada.get("/contracts/").text
    for name in (MARKER, ids.mint("con"), "run_" + "a" * 24):
        assert ada.get(f"/contracts/{name}/").status_code == 404


def test_it_is_reached_from_the_runs_and_from_the_audits(ada: Client, world: World) -> None:
    run = begin(world, None)
    for page in ("/", f"/runs/{run.uid}/audits/"):
        assert 'href="/contracts/"' in ada.get(page).text
