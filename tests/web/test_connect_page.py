"""Connecting one's own work without a manual: each step says what is missing next."""

import re

import pytest
from django.test import Client

from branches.commands.admit import grant_role, make_workspace
from branches.models import ApiToken, Person, Role, Workflow
from tests.builders import World
from tests.web.cast import signed_in

DECLARED = """
workflow: mine
version: 1.0.0
runtime: langgraph
agents: [writer]
state_keys: {memory: {probe: langgraph_memory, target: memory}}
tools: {send: {destination: mail, effect_class: irreversible}}
destinations: {mail: {query: imap, target: mailbox}}
outcome: {expected: sent, verifier: imap, target: mailbox}
limits: {max_age_s: 900, start_s: 60}
"""


@pytest.fixture
def newcomer(db: None) -> Client:
    workspace = make_workspace(name="new")
    person = Person.objects.create_user("kay", password="correct horse battery")
    grant_role(person=person, workspace=workspace, role=Role.ENGINEER)
    return signed_in(person)


def text(page: bytes) -> str:
    return re.sub(r"\s+", " ", page.decode())


def test_an_empty_workspace_is_told_to_declare_a_workflow_first(newcomer: Client) -> None:
    page = text(newcomer.get("/connect/").content)
    assert "Next: workflow. No workflow is declared yet." in page
    assert "No recorder has a token yet." in page


def test_a_few_answers_become_a_declaration_that_publishes_as_it_is(newcomer: Client) -> None:
    answers = {
        "workflow": "desk",
        "runtime": "langgraph",
        "agents": "a, b",
        "tools": "send mail irreversible\nsee - read",
    }
    page = newcomer.get("/connect/", answers)
    declaration = page.context["text"]
    assert newcomer.post("/connect/workflow/", {"declaration": declaration}).status_code == 302
    row = Workflow.objects.get(name="desk")
    assert '"send":{"destination":"mail","effect_class":"irreversible"' in row.declaration
    assert '"see":{"destination":null,"effect_class":"read"' in row.declaration


def test_a_file_counts_like_a_text_and_the_next_step_is_the_recorder(newcomer: Client) -> None:
    from django.core.files.uploadedfile import SimpleUploadedFile

    file = SimpleUploadedFile("workflow.yaml", DECLARED.encode())
    assert newcomer.post("/connect/workflow/", {"file": file}).status_code == 302
    page = text(newcomer.get("/connect/").content)
    assert "Next: recorder. No recorder has a token yet." in page
    assert "The operator’s targets file does not name mailbox." in page


@pytest.mark.parametrize(
    ("sent", "field", "rule"),
    [
        ("workflow: [", "line 1", "yaml"),
        ("workflow: a\nworkflow: b", "line 2", "doubled_key"),
        (DECLARED.replace("irreversible", "harmless"), "tools.*.effect_class", "enum"),
        (DECLARED.replace("workflow: mine", "workflow: CONTENT-MARKER 7f3a"), "workflow", "pattern:name"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_that_was_typed_is_lost(
    newcomer: Client, sent: str, field: str, rule: str
) -> None:
    answer = newcomer.post("/connect/workflow/", {"declaration": sent})
    assert answer.status_code == 422
    refused = answer.context["refused"]
    assert (refused.field, refused.rule) == (field, rule)
    assert answer.context["text"] == sent
    assert not Workflow.objects.exists()


def test_a_token_is_shown_once_with_the_lines_of_its_runtime(newcomer: Client) -> None:
    answer = newcomer.post("/connect/token/", {"name": "host-1", "runtime": "opentelemetry"})
    page = answer.content.decode()
    secret = re.search(r"bgt_[A-Za-z0-9_-]+", page)
    assert secret is not None
    assert "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://testserver/v1/traces" in page
    assert answer.headers["Cache-Control"].startswith("max-age=0")
    assert secret.group() not in newcomer.get("/connect/").content.decode()
    assert ApiToken.objects.get(name="host-1").scopes == ["ingest", "outcome", "read", "redeem"]
    assert "it was not heard from yet" in newcomer.get("/connect/").content.decode()


def test_only_an_engineer_declares_and_makes_tokens(world: World) -> None:
    rosa = signed_in(world.rosa)
    assert (
        "needs the role engineer"
        in rosa.post("/connect/workflow/", {"declaration": DECLARED}).content.decode()
    )
    assert (
        "needs the role engineer"
        in rosa.post("/connect/token/", {"name": "x", "runtime": "autogen"}).content.decode()
    )
    assert not Workflow.objects.filter(name="mine").exists()


def test_owners_are_named_and_a_destination_without_one_says_nobody(world: World) -> None:
    grant_role(person=world.grace, workspace=world.workspace, role=Role.DESTINATION_OWNER, scope="mail")
    page = signed_in(world.ada).get("/connect/").context["page"]
    assert {row.name: row.owners for row in page.destinations} == {"mail": ("grace-desk",), "tickets": ()}
