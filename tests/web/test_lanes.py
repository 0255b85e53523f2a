"""The small drawings beside each receipt."""

from datetime import UTC, datetime
from typing import Any

import pytest

from branches.queries.chains import Link
from branches.queries.timeline import TimelineRow
from debugger.templatetags.lanes import lane_dot, lane_row

LANES = ("critic", "planner", "writer")


def row(sender: str | None, recipient: str | None, mark: str = "", kind: str = "message") -> TimelineRow:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    actor: dict[str, Any] = {"type": "agent", "name": sender}
    item = Link(1, 1, 1, "evt_a", kind, None, "rec", "sha256:0", moment, moment, actor, {})
    return TimelineRow(item, "answer", sender, recipient, "0", mark)


def test_an_arrow_goes_from_sender_to_recipient() -> None:
    assert 'class="la s1" d="M8 15H33M30 12l3 3l-3 3"' in lane_row(row("critic", "writer"), LANES)
    assert 'class="la s3" d="M36 15H11M14 12l-3 3l3 3"' in lane_row(row("writer", "critic"), LANES)


def test_a_checkpoint_crosses_every_lane() -> None:
    assert "M0 15H126" in lane_row(row(None, None, "checkpoint", "checkpoint"), LANES)


def test_an_effect_leaves_the_team() -> None:
    drawing = lane_row(row("planner", "tickets", "effect", "effect_intended"), LANES)
    assert "H124" in drawing
    assert "fxo" in drawing


@pytest.mark.parametrize("sender", [None, "somebody"])
def test_a_sender_without_a_lane_draws_no_square(sender: str | None) -> None:
    assert "<rect" not in lane_row(row(sender, None), LANES)
    assert lane_dot(sender, LANES) == ""


def test_the_rest_of_many_agents_share_the_last_lane() -> None:
    assert 'class="dot l3"' in lane_dot("ninth", ("critic", "planner", "other"))


def test_a_drawing_has_no_style_and_escapes_nothing_foreign() -> None:
    drawing = lane_row(row("critic", '"><script>'), LANES)
    assert "style" not in drawing
    assert "script" not in drawing
