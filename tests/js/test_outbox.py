"""Evidence is kept until a server of ours says that it took it, or that it never will."""

import pytest

from tests.js.toolchain import RECORDER, Toolchain

OUTBOX = RECORDER / "outbox.mjs"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, "<html>sign in</html>"),
        (200, "{}"),
        (302, ""),
        (401, '{"error": {"field": "", "rule": "token"}}'),
        (403, ""),
        (404, "<html>no such page</html>"),
        (408, ""),
        (409, ""),
    ],
)
def test_what_nobody_of_ours_has_taken_is_sent_again(toolchain: Toolchain, status: int, body: str) -> None:
    said = toolchain.told("6", "outbox.mjs", str(OUTBOX), str(status), body)
    assert (said["first"], said["then"]) == ([], ["L1"])
    assert said["rules"]


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_what_is_refused_for_what_it_is_is_not_sent_again(toolchain: Toolchain, status: int) -> None:
    body = '{"error": {"field": "steps", "rule": "list"}}'
    said = toolchain.told("6", "outbox.mjs", str(OUTBOX), str(status), body)
    assert said == {"first": [], "then": [], "rules": ["list"]}


def test_what_was_taken_is_not_sent_again(toolchain: Toolchain) -> None:
    said = toolchain.told("6", "outbox.mjs", str(OUTBOX), "200", '{"run": "run_x"}')
    assert said == {"first": ["L1"], "then": [], "rules": []}
