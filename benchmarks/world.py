"""The installation that is measured: a fresh SQLite database with one workspace."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

VAR = Path(tempfile.mkdtemp(prefix="branchgate-bench-"))


def set_up() -> Any:
    """Prepare Django on a fresh database and return a world of the tests' builders."""
    os.environ["BRANCHGATE_VAR"] = str(VAR)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    os.environ.pop("DATABASE_URL", None)
    import django

    django.setup()
    from debugger.startup import prepare
    from tests.builders import make_world

    prepare()
    return make_world("bench")


def record_run(world: Any, receipts: int) -> Any:
    """Record a run of so many receipts: mostly messages, 24 checkpoints, 61 external effects."""
    from branches.evidence import ids
    from branches.models import Run
    from tests import builders

    uid = ids.mint("run")
    world.ingest(builders.run_started(world, uid))
    names = builders.declaration()["agents"]
    made = 1
    every_checkpoint = max(1, (receipts - 150) // 24)
    every_effect = max(1, (receipts - 150) // 61)
    batch: list[dict[str, Any]] = []
    checkpoints = effects = 0
    while made < receipts - 2:
        if made // every_checkpoint > checkpoints and checkpoints < 24:
            checkpoints += 1
            parent = f"c{checkpoints - 1}" if checkpoints > 1 else None
            batch.append(builders.checkpoint(world, uid, f"c{checkpoints}", parent))
            made += 1
        elif checkpoints and made // every_effect > effects and effects < 61:
            effects += 1
            at = f"c{checkpoints}"
            batch += builders.effect(world, uid, f"{uid}-effect{effects}", "create_ticket", at)
            made += 2
        else:
            batch.append(builders.message(world, uid, f"m{made}", names[made % len(names)]))
            made += 1
        if len(batch) >= 500:
            assert not world.ingest(*batch).refused
            batch = []
    batch += [builders.stopped(world, uid), builders.closed(world, uid)]
    assert not world.ingest(*batch).refused
    return Run.objects.get(uid=uid)


def ndjson(receipts: list[dict[str, Any]]) -> bytes:
    """Return receipts as the body of a batch."""
    return b"\n".join(json.dumps(receipt, separators=(",", ":")).encode() for receipt in receipts)
