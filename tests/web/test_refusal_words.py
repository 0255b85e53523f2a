"""Every rule that a person can run into has words."""

import re
from pathlib import Path

from branches.commands.refusal import Refused
from debugger.web.refusals import WORDS, refusal_words

COMMANDS = Path(__file__).resolve().parents[2] / "branches" / "commands"
# Said to programs only: a recorder, an operator's command line, or a job's own line on its page.
TO_PROGRAMS = {
    "base64", "broken_at", "bytes", "conflict", "disjoint", "max_items", "not_entitled", "pattern",
    "proof", "several_runs", "token_name", "too_late_for_a_baseline", "weak_key",
}  # fmt: skip


def test_every_rule_a_person_can_meet_has_words() -> None:
    source = "".join(path.read_text() for path in COMMANDS.glob("*.py"))
    rules = set(re.findall(r'Refused\(\s*rule=f?"([a-z0-9_]+)', source))
    assert len(rules) > 40
    rules.remove("request_")
    rules |= {"request_superseded", "request_withdrawn", "request_revoked"}
    assert rules - TO_PROGRAMS - set(WORDS) == set()


def test_a_refusal_names_its_detail_and_field() -> None:
    assert refusal_words(Refused(rule="role:approver")) == "Refused: this needs the role approver."
    assert refusal_words(Refused(rule="required", field="edit_class")) == "Refused: edit class is required."
