"""The demo's recorder tries itself once, beside everything else, and says what it kept."""

import json
from pathlib import Path

import httpx
import pytest

from branches.queries.conformance import REQUIRED
from tests.patience import STALL_S, comes
from tests.worlds import DemoProcess, place

pytestmark = pytest.mark.walk


def reports(world: DemoProcess) -> list[list[str]]:
    headers = {"Authorization": f"Bearer {world.token}"}
    answer = httpx.get(f"{world.base}/api/v1/audit", headers=headers, timeout=60, trust_env=False)
    receipts = [json.loads(line) for line in answer.text.splitlines()]
    return [each["body"]["passed"] for each in receipts if each["kind"] == "recorder_conformed"]


def test_the_demos_recorder_reports_once_that_it_keeps_every_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CELERY_BROKER_URL", raising=False)  # two worlds on one would take each other's jobs
    with place(tmp_path) as world:
        world.start()
        assert comes(lambda: reports(world), STALL_S), world.output()
        assert reports(world) == [sorted(REQUIRED)]
        assert world.running is not None
        assert world.running.poll() is None  # that one program ended ends nothing else
        assert "conformance" not in world.output()
        assert world.stop() == 0
        assert world.left() == []
        world.start()
        assert reports(world) == [sorted(REQUIRED)]
