"""Connecting one's own work without a manual: each step says what is missing next."""

import base64
import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from branches.commands.admit import grant_role, issue_token, make_workspace, token_digest
from branches.commands.give_token import give_token
from branches.commands.import_source import Declared, import_source
from branches.commands.publish_workflow import publish_workflow
from branches.evidence.boxes import BoxKey
from branches.models import ApiToken, Person, Role, Run, TokenUse, Workflow, Workspace
from branches.ports import SourceFile
from branches.queries.clock import now
from branches.queries.connect_page import ConnectPage, connect_page
from debugger.intake import MemoryShelf
from tests.adapters.otlp_requests import PROTOBUF, agent, as_protobuf
from tests.adapters.test_otlp_workflow import KEYED, in_protobuf
from tests.adapters.test_otlp_workflow import text as named
from tests.builders import World, declaration, failed_run
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


def test_a_version_that_asks_less_waits_for_the_others_under_policies(world: World, ada: Client) -> None:
    declared = declaration(version="2.0.0")
    declared["tools"]["send_mail"]["effect_class"] = "read"
    form = {"declaration": json.dumps(declared)}
    page = text(ada.post("/connect/workflow/", form, follow=True).content)
    assert "It asks less for than what is published. Proposed: 1 of the others have to agree." in page
    assert "workflow desk 2.0.0, which asks for less" in page
    assert "tools.send_mail.effect_class" in page
    assert [row.version for row in Workflow.objects.filter(workspace=world.workspace)] == ["1.0.0"]


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
    assert "send, and nothing else" in page
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


# --- what a token may, by runtime

RESUMES = ["ingest", "redeem"]
LOOP = Path(__file__).resolve().parents[1] / "adapters" / "data" / "ai_sdk_7" / "04_step_limit.json"


def made(browser: Client, runtime: str) -> tuple[str, str]:
    """Return the secret of a token that was made on the page for a runtime, and the page."""
    answer = browser.post("/connect/token/", {"name": runtime, "runtime": runtime})
    page = answer.content.decode()
    secret = re.search(r"bgt_[A-Za-z0-9_-]+", page)
    assert secret is not None
    return secret.group(), page


def bearing(secret: str) -> Client:
    return Client(headers={"Authorization": f"Bearer {secret}"})


@pytest.mark.parametrize(
    ("runtime", "scopes"),
    [
        ("langgraph", RESUMES),
        ("openai-agents", RESUMES),
        ("autogen", RESUMES),
        ("ai-sdk", ["ingest"]),
        ("opentelemetry", ["ingest"]),
    ],
)
def test_a_token_carries_no_verb_that_its_runtime_does_not_use(
    newcomer: Client, runtime: str, scopes: list[str]
) -> None:
    secret, page = made(newcomer, runtime)
    assert sorted(ApiToken.objects.get(digest=token_digest(secret)).scopes) == scopes
    assert f"({', '.join(f'<code>{scope}</code>' for scope in scopes)})" in page
    client = bearing(secret)
    assert client.get("/api/v1/runs").status_code == 401
    box = {"name": "here", "box_key": base64.b64encode(BoxKey.generate().public).decode()}
    pairing = {**box, "runtime": {"name": runtime, "version": "1"}}
    paired = client.post("/api/v1/recorders/pair", pairing, content_type="application/json")
    assert paired.status_code == (201 if "redeem" in scopes else 401)
    assert client.get("/api/v1/recorder/work?wait=0").status_code == (200 if "redeem" in scopes else 401)
    assert client.get("/api/v1/workflows/mine/1.0.0").status_code == 404  # let in, and there is none


@pytest.mark.parametrize("name", ["invoice-checks", "older-checks"])
def test_an_engineer_makes_no_token_of_a_name_that_confirms_outcomes(world: World, name: str) -> None:
    """A version that was followed by another one still judges the runs that began under it."""
    for version, writer in (("3.0.0", "older-checks"), ("4.0.0", "invoice-checks")):
        declared = declaration(version=version, writers={writer: {"outcomes": True}})
        publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)
    answer = signed_in(world.ada).post("/connect/token/", {"name": name, "runtime": "langgraph"})
    refused = answer.context["refused"]
    assert (answer.status_code, refused.field, refused.rule) == (422, "name", "name_entitled")
    assert "choose another name for a recorder" in text(answer.content)
    assert not ApiToken.objects.filter(name=name).exists()


def test_a_name_that_only_does_work_or_confirms_elsewhere_is_free(world: World, newcomer: Client) -> None:
    writers = {"desk": {"agents": ["writer"]}, "checks": {"outcomes": True}}
    declared = declaration(version="3.0.0", agents=[*declaration()["agents"], "writer"], writers=writers)
    publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)
    for browser, name in ((signed_in(world.ada), "desk"), (newcomer, "checks")):
        answer = browser.post("/connect/token/", {"name": name, "runtime": "langgraph"})
        assert (answer.status_code, ApiToken.objects.filter(name=name).count()) == (200, 1)


def test_a_policy_admin_gives_a_token_of_a_name_that_confirms_outcomes(world: World) -> None:
    declared = declaration(version="3.0.0", writers={"checks": {"outcomes": True}})
    publish_workflow(workspace=world.workspace, publisher=world.workspace.uid, declaration=declared)
    grant_role(person=world.grace, workspace=world.workspace, role=Role.POLICY_ADMIN)
    given, _ = give_token(
        person=world.grace, workspace=world.workspace, name="checks", scopes=["ingest"], days=30
    )
    assert given.name == "checks"


def test_a_runtime_that_nobody_knows_gets_no_token(newcomer: Client) -> None:
    answer = newcomer.post("/connect/token/", {"name": "host", "runtime": "CONTENT-MARKER-7f3a"})
    refused = answer.context["refused"]
    assert (answer.status_code, refused.field, refused.rule) == (422, "runtime", "enum")
    assert "CONTENT-MARKER-7f3a" not in answer.content.decode()
    assert not ApiToken.objects.exists()


def test_the_lines_name_the_workflow_that_was_declared_for_the_runtime(newcomer: Client) -> None:
    assert "# export OTEL_RESOURCE_ATTRIBUTES=branchgate.workflow=NAME" in made(newcomer, "opentelemetry")[1]
    assert "workflow:" not in made(newcomer, "ai-sdk")[1]
    for runtime, name in (("opentelemetry", "traced"), ("ai-sdk", "looped"), ("langgraph", "mine")):
        declared = DECLARED.replace("runtime: langgraph", f"runtime: {runtime}").replace("mine", name)
        assert newcomer.post("/connect/workflow/", {"declaration": declared}).status_code == 302
    _, traced = made(newcomer, "opentelemetry")
    assert "\nexport OTEL_RESOURCE_ATTRIBUTES=branchgate.workflow=traced\n" in traced
    assert 'workflow: "looped", policyVersion' in made(newcomer, "ai-sdk")[1]


# --- senders that pair no recorder


@pytest.fixture
def desk(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose recorder paired and was not heard from since, with nothing kept of earlier traces."""
    shelf = MemoryShelf()
    monkeypatch.setattr("debugger.intake.shelf", lambda: shelf)
    return world


def steps(workspace: Workspace) -> dict[str, tuple[bool, str]]:
    return {step.name: (step.is_done, step.missing) for step in connect_page(workspace).steps}


def row(page: ConnectPage, token: str) -> Any:
    return next(each for each in page.recorders if each.token == token)


def export(secret: str, body: bytes | None = None) -> None:
    answer = bearing(secret).post("/v1/traces", body or as_protobuf([agent(1)]), content_type=PROTOBUF)
    assert answer.status_code == 200


def test_traces_that_arrive_are_heard_and_the_last_step_says_what_they_lack(desk: World) -> None:
    browser = signed_in(desk.ada)
    secret, _ = made(browser, "opentelemetry")
    assert steps(desk.workspace)["Recorder"][0] is False
    assert "none: it only sends" in browser.get("/connect/").content.decode()
    export(secret)
    found = steps(desk.workspace)
    assert found["Recorder"][0] is True
    assert found["First run"] == (
        False,
        "Runs arrived, but none names a workflow: say it where they are sent, or when they are imported.",
    )
    page = browser.get("/connect/").content.decode()
    assert "OTEL_RESOURCE_ATTRIBUTES=branchgate.workflow=NAME" in page
    assert "--workflow NAME@VERSION" in page
    assert Run.objects.get(workspace=desk.workspace).uid in page


def test_a_run_that_names_its_workflow_finishes_the_last_step(desk: World) -> None:
    secret, _ = made(signed_in(desk.ada), "opentelemetry")
    export(secret)
    export(secret, in_protobuf(([(KEYED, named("desk"))], [agent(1, trace=2)])).content)
    page = connect_page(desk.workspace)
    assert steps(desk.workspace)["First run"][0] is True
    assert page.first_run == Run.objects.get(workflow=desk.workflow)


def test_evidence_of_a_loop_is_heard_like_traces(desk: World) -> None:
    secret, _ = made(signed_in(desk.ada), "ai-sdk")
    loop = {**json.loads(LOOP.read_bytes()), "workflow": "desk"}
    assert bearing(secret).post("/api/v1/sources/ai_sdk", loop, "application/json").status_code == 200
    found = steps(desk.workspace)
    assert (found["Recorder"][0], found["First run"][0]) == (True, True)


def test_a_token_with_more_verbs_is_heard_only_once_runs_arrived(desk: World) -> None:
    """It may have been used to read, which says nothing of a sender."""
    _, secret = issue_token(workspace=desk.workspace, name="all", scopes=["ingest", "read"])
    assert bearing(secret).get("/api/v1/runs").status_code == 200
    assert TokenUse.objects.filter(token__name="all").exists()
    assert row(connect_page(desk.workspace), "all").heard_at is None
    export(secret)
    assert row(connect_page(desk.workspace), "all").heard_at is not None


def test_a_recorder_that_sends_and_never_polls_is_heard_and_not_online(desk: World) -> None:
    assert row(connect_page(desk.workspace), "recorder").heard_at is None
    run = failed_run(desk)
    assert bearing(desk.token).get(f"/api/v1/runs/{run.uid}").status_code == 200
    found = row(connect_page(desk.workspace), "recorder")
    assert found.heard_at is not None
    assert now() - found.heard_at < timedelta(minutes=5)
    assert found.online is False


def test_a_file_that_was_imported_as_a_workflows_finishes_the_last_step_too(desk: World) -> None:
    file = SourceFile("a", as_protobuf([agent(1)]), {"content-type": PROTOBUF})
    import_source(workspace=desk.workspace, importer="otlp", files=[file])
    assert steps(desk.workspace)["First run"][0] is False
    other = SourceFile("b", as_protobuf([agent(1, trace=2)]), {"content-type": PROTOBUF})
    import_source(workspace=desk.workspace, importer="otlp", files=[other], declared=Declared(desk.workflow))
    assert steps(desk.workspace)["First run"][0] is True


def test_files_alone_are_a_source_too_until_somebody_makes_a_token(newcomer: Client) -> None:
    workspace = Workspace.objects.get(name="new")
    file = SourceFile("a", as_protobuf([agent(1)]), {"content-type": PROTOBUF})
    import_source(workspace=workspace, importer="otlp", files=[file])
    assert steps(workspace)["Recorder"][0] is True
    assert "Runs came as files." in newcomer.get("/connect/").content.decode()
    made(newcomer, "langgraph")
    assert steps(workspace)["Recorder"] == (
        False,
        "A token waits for its recorder: it was not heard from yet.",
    )
