"""The command that adopts a policy: problems by line, nothing adopted by a check, the same again the same."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from branches.models import PolicyChange
from branches.queries.policies import policy_of
from branches.queries.policy_text import default_text
from tests.builders import World, one_approver


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("adopt_policy", *arguments, stdout=out)
    return out.getvalue()


def test_it_prints_the_default_and_checks_it_without_adopting(db: None, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(run("--print-default"))
    assert file.read_text() == default_text()
    assert run(str(file), "--check").startswith("1 sha256:")
    assert not PolicyChange.objects.exists()


def test_it_adopts_and_the_same_again_is_the_same(world: World, tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(one_approver().replace("one-approver", "two"))
    assert run(str(file), "--workspace", "desk") == run(str(file), "--workspace", "desk")
    assert policy_of(world.workspace).version == "two"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("policy: [", "line 1: (whole): yaml"),
        (one_approver().replace("people: 1", "people: 9", 1), "classes.C2.rules.1.people: maximum"),
    ],
)
def test_it_tells_what_is_wrong_by_line(db: None, tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(CommandError) as refused:
        run(str(file), "--check")
    assert said in str(refused.value)


def test_a_file_that_is_not_there_is_named_by_the_sort_of_its_fault(db: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="file: FileNotFoundError"):
        run(str(tmp_path / "none.yaml"))
