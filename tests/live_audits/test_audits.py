"""Each runtime's runs on a running server: one that went well, some that did not, and what the audits say.

Whatever has no outcome receipt may not be called verified: `Live.seen` looks at that for each.
"""

import os
from pathlib import Path

import pytest

from tests.js.toolchain import MODULE, VERSIONS, Toolchain
from tests.live_audits import runs
from tests.live_audits.live import Live
from tests.recorder import team
from tests.recorder.openai_agents.crew import calls, says

CLAIMED = ("false_complete", ["no_receipt"])
UNPROVED = ("false_complete", ["no_outcome_receipt"])
DELIVERED = ("false_success", ["unverified"])
PARTIAL = ("uncertain", ["unknown"])
AS_MEANT = "As the contract says"
NO_HANDOFF = "No handoff was recorded."


@pytest.fixture(scope="module")
def langgraph(server: Live) -> Live:
    server.publish(runs.LANGGRAPH)
    return server


@pytest.fixture(scope="module")
def autogen(server: Live) -> Live:
    server.publish(runs.AUTOGEN)
    return server


@pytest.fixture(scope="module")
def openai_agents(server: Live) -> Live:
    server.publish(runs.OPENAI_AGENTS)
    return server


def test_a_langgraph_team_that_went_its_way_only_says_that_it_is_complete(
    langgraph: Live, tmp_path: Path
) -> None:
    seen = langgraph.seen(runs.langgraph_run(langgraph, tmp_path, team.build))
    assert (seen.stops, seen.handoffs, seen.topology) == ([CLAIMED], [DELIVERED], UNPROVED)
    assert "Completed, no receipt" in seen.page  # the edge that the contract calls a handoff
    assert "2 interactions" in seen.page


def test_a_langgraph_team_whose_outcome_its_destination_holds_is_complete_and_its_route_healthy(
    langgraph: Live, tmp_path: Path
) -> None:
    seen = langgraph.seen(runs.checked_run(langgraph, tmp_path, team.World), is_confirmed=True)
    assert (seen.stops, seen.topology) == ([("verified_complete", [])], ("healthy", []))
    assert seen.handoffs == [DELIVERED]  # it promised something of its own, which nobody looked for
    assert AS_MEANT in seen.page


def test_a_langgraph_team_whose_outcome_its_destination_does_not_hold_is_neither(
    langgraph: Live, tmp_path: Path
) -> None:
    seen = langgraph.seen(runs.checked_run(langgraph, tmp_path, runs.Forgetful))
    assert seen.stops == [("false_complete", ["check_failed"])]
    assert (seen.handoffs, seen.topology) == ([DELIVERED], UNPROVED)
    assert AS_MEANT not in seen.page


def test_a_langgraph_team_that_left_one_out_took_a_forbidden_route_and_waits_for_nobody(
    langgraph: Live, tmp_path: Path
) -> None:
    seen = langgraph.seen(runs.langgraph_run(langgraph, tmp_path, runs.goes_past_the_writer))
    assert seen.stops == [("waiting_unrouted", ["no_deadline", "no_owner"])]
    assert seen.topology == ("forbidden_edge", ["planner>publisher:handover"])
    assert "nobody named" in seen.page
    assert "Contain the route" in seen.page


def test_an_autogen_swarm_that_handed_over_has_delivered_what_nobody_checked(
    autogen: Live, tmp_path: Path
) -> None:
    seen = autogen.seen(runs.hands_over_once(autogen, tmp_path))
    assert (seen.stops, seen.handoffs, seen.topology) == ([CLAIMED], [DELIVERED], UNPROVED)
    assert "Completed, no receipt" in seen.page


def test_an_autogen_swarm_that_hands_back_until_its_limit_took_a_forbidden_route(
    autogen: Live, tmp_path: Path
) -> None:
    seen = autogen.seen(runs.hands_back_until_its_limit(autogen, tmp_path))
    assert seen.stops == [("bounded_stop", ["step_limit"])]
    assert seen.topology == ("forbidden_edge", ["bob>alice:handoff"])
    assert sorted(seen.handoffs) == [("delegated", []), ("waiting", ["dependency:bob"])]


def test_a_crew_of_openai_agents_that_handed_over_only_claims_it(openai_agents: Live, tmp_path: Path) -> None:
    script = [calls("transfer_to_billing", "h1")], [says()]
    seen = openai_agents.seen(runs.openai_agents_run(openai_agents, tmp_path, *script))
    assert (seen.stops, seen.handoffs, seen.topology) == ([CLAIMED], [DELIVERED], UNPROVED)


def test_a_crew_of_openai_agents_whose_refund_waits_is_routed_to_nobody(
    openai_agents: Live, tmp_path: Path
) -> None:
    script = [calls("transfer_to_billing", "h1")], [calls("refund", "c1", order="7")], [says()]
    seen = openai_agents.seen(runs.openai_agents_run(openai_agents, tmp_path, *script))
    assert seen.stops == [("waiting_unrouted", ["no_deadline", "no_owner"])]
    assert [state for state, _ in seen.handoffs] == ["waiting"]
    assert seen.topology == ("working", [])


def test_a_crew_of_openai_agents_whose_first_answers_alone_lacks_an_edge(
    openai_agents: Live, tmp_path: Path
) -> None:
    seen = openai_agents.seen(runs.openai_agents_run(openai_agents, tmp_path, [says()]))
    missing = "triage>billing:handoff|triage>legal:handoff"
    assert (seen.stops, seen.handoffs) == ([CLAIMED], [])
    assert seen.topology == ("false_complete", sorted([missing, "no_outcome_receipt"]))


@pytest.mark.parametrize("major", sorted(VERSIONS))
def test_loops_of_the_ai_sdk_say_why_they_stopped_and_nothing_of_who_spoke_to_whom(
    server: Live, toolchain: Toolchain, major: str
) -> None:
    name = f"refunds-{major}"
    server.publish(runs.declared("ai-sdk", name))
    arguments = (f"ai-{major}", str(MODULE), server.url, name)
    taken = toolchain.told(major, "audited.mjs", *arguments, env={"BRANCHGATE_TOKEN": server.token})
    seen = [server.seen(each["run"]) for each in taken]
    assert [each.stops for each in seen] == [
        [CLAIMED],
        [("bounded_stop", ["step_limit"])],
        [("waiting_unrouted", ["no_deadline", "no_owner", "no_resume_token"])],
    ]
    for each in seen:
        # A loop is one agent's: an edge that is not there is no proof that nobody was spoken to.
        assert (each.handoffs, each.topology) == ([], PARTIAL)
        assert NO_HANDOFF in each.page
        assert "0 interactions" in each.page


@pytest.mark.parametrize("language", ["python", "node"])
def test_traces_of_a_stock_exporter_show_a_forbidden_route_and_prove_no_healthy_one(
    server: Live, request: pytest.FixtureRequest, language: str
) -> None:
    name = f"traced-{language}"
    server.publish(runs.declared("otlp", name))

    def send(*agents: str) -> str:
        before = server.served.runs()
        if language == "python":
            runs.traced(server, name, *agents)
        else:
            toolchain: Toolchain = request.getfixturevalue("toolchain")
            env = {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{server.url}/v1/traces",
                "OTEL_EXPORTER_OTLP_TRACES_HEADERS": f"Authorization=Bearer {server.token}",
                "WORKFLOW": name,
            }
            toolchain.run("7", "crew.mjs", *agents, env={**os.environ, **env})
        (run,) = server.new_runs(before, 1)
        return run

    good, bad = server.seen(send("triage", "billing")), server.seen(send("triage", "billing", "triage"))
    assert (good.handoffs, good.topology) == ([], PARTIAL)
    assert (bad.handoffs, bad.topology) == ([], ("forbidden_edge", ["billing>triage:handoff"]))
    assert [state for state, _ in (*good.stops, *bad.stops)] == ["false_complete"] * 2
    assert NO_HANDOFF in good.page
