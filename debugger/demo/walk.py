"""Walks the demo over HTTP as its people: every change of status, and everything that must be refused."""

import html
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import unquote

from branches.evidence import ids
from debugger.demo.walker import Visitor, Walk, WalkFailed

EXPECTED: Final = (
    "restore_uncertain",
    "effects_unreconciled",
    "needs_approval",
    "ready_to_resume",
    "resuming",
    "awaiting_outcome",
    "false_success",
    "verified",
)
_HIDDEN = re.compile(r'name="([a-z_]+)" value="([^"]*)"')
_WRONG_SECTION, _RIGHT_SECTION = "front-page", "reports"


def walk(base: str, *, token: str, run: str, brief: str, say: Callable[[str], None]) -> None:
    """Do the whole walk; raises WalkFailed where something else happened than must happen."""
    steps = Walk(base, token, run, brief, say)
    for step in (_fork, _state, _effects, _authority, _late_change, _resume, _outcome):
        step(steps)
    missing = [status for status in EXPECTED if status not in steps.seen]
    if missing:
        raise WalkFailed(f"never seen: {', '.join(missing)}")
    steps.say(f"{len(EXPECTED)} statuses seen, {len(steps.refused)} attempts refused.")


def _fork(walk: Walk) -> None:
    page = walk.ada.get(f"/runs/{walk.run}/fork/")
    repeats = re.findall(r'data-repeat="([a-z_]+)"', page)
    if not {"create_ticket", "send_mail"} <= set(repeats):
        raise WalkFailed("the fork page does not list the ticket and the mail")
    walk.say("A replay from the suggested checkpoint would repeat: " + ", ".join(repeats))
    checkpoint = next(value for name, value in _HIDDEN.findall(page) if name == "checkpoint")
    answer = walk.ada.post(
        f"/runs/{walk.run}/fork/",
        {"checkpoint": checkpoint, "reason_code": "false_success", "edit_class": "add_detail",
         "hypothesis": "The brief names a section that the desk does not have."},
    )  # fmt: skip
    answer.raise_for_status()
    walk.branch = answer.url.path.strip("/").split("/")[-1]
    if not ids.is_id(walk.branch, "br"):
        raise WalkFailed("forking led to no branch")
    walk.until(lambda verdict: verdict["reasons"] == ["missing:approval_queue"], "the four probes")
    walk.wait("restore_uncertain", "forked; four of five keys match, the approval queue was not captured")
    _edit(walk, edit_class="add_detail")
    _edit_value(walk)


def _edit(walk: Walk, *, edit_class: str) -> None:
    """Read the brief live through the recorder, name the right section, and record the edit."""
    page = walk.ada.get(f"/branches/{walk.branch}/edit/?message={walk.brief}")
    text = _shown(page, "the brief").replace(_WRONG_SECTION, _RIGHT_SECTION)
    answer = walk.on_branch("edit", target=walk.brief, text=text, edit_class=edit_class)
    answer.raise_for_status()


def _edit_value(walk: Walk) -> None:
    """Read a value of the team's state live, and change how the report is signed."""
    listed = walk.ada.get(f"/branches/{walk.branch}/edit/?key=agent_memory")
    chosen = re.search(r'<code>byline</code>.*?value=([^"#]+)#edit', listed, re.DOTALL)
    if chosen is None:
        raise WalkFailed("the recorder did not list the byline")
    page = walk.ada.get(f"/branches/{walk.branch}/edit/?key=agent_memory&value={chosen.group(1)}")
    answer = walk.on_branch(
        "edit",
        state_key="agent_memory",
        target=unquote(chosen.group(1)),
        text=_shown(page, "the byline").replace("research desk", "research and verification desks"),
        edit_class="add_detail",
    )
    answer.raise_for_status()


def _shown(page: str, what: str) -> str:
    """Return the text that the recorder showed in the edit form."""
    shown = re.search(r'<textarea id="text"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    if shown is None or not shown.group(1).strip():
        raise WalkFailed(f"the recorder did not show {what}")
    return html.unescape(shown.group(1))


def _state(walk: Walk) -> None:
    walk.job("probe_state", "approval_queue")
    walk.wait("effects_unreconciled", "the approval queue was captured from its journal and still matches")


def _effects(walk: Walk) -> None:
    walk.job("audit_arrivals", "all")
    walk.until(lambda _: _audited(walk), "the audit of what arrived")
    walk.job("ask_destination", "all")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        page = walk.ada.get(f"/branches/{walk.branch}/effects/")
        for form in _settling_forms(page):
            walk.on_branch("reconcile", **form)
        if walk.verdict()["status"] != "effects_unreconciled":
            break
        time.sleep(0.2)
    walk.wait(
        "needs_approval", "the desk was asked: the ticket is reused, the mail is skipped, no report was made"
    )


def _audited(walk: Walk) -> bool:
    """Return whether each of the desk's three places was asked what arrived, and all of it is in receipts."""
    page = walk.ada.get(f"/branches/{walk.branch}/effects/")
    found = re.findall(r'data-audit="[a-z.]+" data-strange="(\d+)"', page)
    if any(number != "0" for number in found):
        raise WalkFailed("something arrived at the desk that no receipt accounts for")
    return len(found) == 3


def _settling_forms(page: str) -> Iterator[dict[str, str]]:
    """Yield the form of each operation that can be settled; what cannot be undone is skipped."""
    for form in re.findall(r'<form[^>]*action="[^"]*/reconcile/"[^>]*>.*?</form>', page, re.DOTALL):
        fields = {name: value for name, value in _HIDDEN.findall(form) if name in {"operation", "shown"}}
        yield fields | ({"decision": "skip"} if 'value="skip"' in form else {})


def _authority(walk: Walk) -> None:
    walk.must_refuse(
        "resume without approval",
        walk.on_branch("resume", digest=""),
        words=r"Refused: the branch is not ready[^.]*\.",
    )
    request = _ask(walk)
    walk.must_refuse(
        "Ada approves herself",
        walk.ada.post(f"/approvals/{request}/", _approval(walk.grace, request)),
        words=r"Refused: you [a-z]+ this branch, and nobody approves their own work\.",
    )
    _approve(walk, request)
    walk.wait("ready_to_resume", "Grace and Barbara approved exactly what they were shown")


def _ask(walk: Walk) -> str:
    walk.on_branch("request").raise_for_status()
    page = walk.ada.get(f"/branches/{walk.branch}/")
    found = re.search(r"/approvals/(req_[a-z0-9]+)/", page)
    if found is None:
        raise WalkFailed("no request was made")
    return found.group(1)


def _approval(approver: Visitor, request: str) -> dict[str, str]:
    page = approver.get(f"/approvals/{request}/")
    digest = next(value for name, value in _HIDDEN.findall(page) if name == "digest")
    return {"decision": "approved", "reason_approved": "reviewed_delta", "digest": digest}


def _approve(walk: Walk, request: str) -> None:
    """Let two people of two groups approve: what the branch may do cannot be undone."""
    walk.grace.post(f"/approvals/{request}/", _approval(walk.grace, request)).raise_for_status()
    if walk.verdict()["status"] != "needs_approval":
        raise WalkFailed("one approval was enough for what cannot be undone")
    walk.say("Grace, of the group safety, approved; another group still has to.")
    walk.barbara.post(f"/approvals/{request}/", _approval(walk.barbara, request)).raise_for_status()


def _late_change(walk: Walk) -> None:
    """Change the branch after it was approved: that supersedes the approval and its digest."""
    page = walk.ada.get(f"/branches/{walk.branch}/")
    old_digest = next(value for name, value in _HIDDEN.findall(page) if name == "digest")
    _edit(walk, edit_class="change_plan")
    walk.wait("needs_approval", "a late change of the edit superseded the request and both approvals")
    walk.must_refuse(
        "resume after a late change",
        walk.on_branch("resume", digest=old_digest),
        words=r"(Refused: the branch is not ready[^.]*\.|no longer what you were shown)",
    )
    request = _ask(walk)
    walk.must_refuse(
        "an approval of the outdated digest",
        walk.grace.post(
            f"/approvals/{request}/",
            {"decision": "approved", "reason_approved": "reviewed_delta", "digest": old_digest},
        ),
        words=r"Refused: the branch is no longer what you were shown\.",
    )
    _approve(walk, request)
    walk.wait("ready_to_resume", "Grace and Barbara approved the branch as it is now")


def _resume(walk: Walk) -> None:
    page = walk.ada.get(f"/branches/{walk.branch}/")
    digest = next(value for name, value in _HIDDEN.findall(page) if name == "digest")
    walk.on_branch("resume", digest=digest).raise_for_status()
    walk.wait("resuming", "the recorder redeemed the one-time permit where the agent runs")
    walk.wait("awaiting_outcome", "restored, re-hashed, started")
    walk.wait("false_success", "the loop says it is done; the desk has no new report yet", seconds=60)


def _outcome(walk: Walk) -> None:
    lines = walk.api.get(f"/runs/{walk.branch}/receipts").raise_for_status().text.splitlines()
    bodies = {receipt["kind"]: receipt["body"] for receipt in map(json.loads, lines)}
    redeemed = bodies["permit_redeemed"]
    again = walk.api.post(
        f"/permits/{redeemed['permit']}/redeem",
        json={"recorder": redeemed["recorder"], "attempt": ids.mint("att")},
    )
    walk.must_refuse("a second redemption", again, words=r"already_redeemed")
    walk.must_refuse(
        "the parent's old report offered as the outcome",
        walk.on_branch("offer", version=str(bodies["baseline_taken"]["destination_version"])),
        words=r"Refused: that artifact stood at the destination before[^.]*\.",
    )
    walk.wait("verified", "the desk published a new report, after this branch's resume", seconds=60)
