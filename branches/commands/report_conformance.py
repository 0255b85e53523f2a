"""Records what a recorder kept of its promises in the conformance suite: its own word, and called so."""

import re
from collections.abc import Sequence
from typing import Final

from django.db import transaction

from branches.commands.append_receipt import Actor
from branches.commands.append_to_workspace import append_to_workspace
from branches.commands.refusal import Refused
from branches.evidence.kinds.forms import NAME_PATTERN, VERSION_PATTERN, WORD_PATTERN
from branches.evidence.kinds.workspace import MOST_CHECKS
from branches.models import Recorder, WorkspaceReceipt

_NAME, _VERSION, _WORD = (re.compile(each) for each in (NAME_PATTERN, VERSION_PATTERN, WORD_PATTERN))
_FORMS: Final = (("runtime", _NAME), ("runtime_version", _VERSION), ("suite", _VERSION))


def report_conformance(
    *,
    recorder: Recorder,
    runtime: str,
    runtime_version: str,
    suite: str,
    passed: Sequence[str],
    failed: Sequence[str],
) -> WorkspaceReceipt:
    """Append the report to the workspace's chain; the newest of a runtime and version counts."""
    for (field, form), value in zip(_FORMS, (runtime, runtime_version, suite), strict=True):
        if not form.fullmatch(value):
            raise Refused(rule="pattern", field=field)
    for field, names in (("passed", passed), ("failed", failed)):
        if len(names) > MOST_CHECKS:
            raise Refused(rule=f"max_items:{MOST_CHECKS}", field=field)
        if not all(_WORD.fullmatch(name) for name in names):
            raise Refused(rule="pattern:word", field=field)
    if set(passed) & set(failed) or not (passed or failed):
        raise Refused(rule="disjoint", field="passed")
    with transaction.atomic():
        return append_to_workspace(
            workspace=recorder.workspace,
            kind="recorder_conformed",
            body={
                "recorder": recorder.uid,
                "runtime": runtime,
                "runtime_version": runtime_version,
                "suite": suite,
                "passed": sorted(set(passed)),
                "failed": sorted(set(failed)),
            },
            actor=Actor("recorder", recorder.uid),
            subject=recorder.uid,
        )
