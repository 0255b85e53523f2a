"""Imports stop evidence of the Vercel AI SDK: each file is one loop, and one run."""

from collections.abc import Sequence

from branches.evidence.keys import HmacKey
from branches.ports import SourceFile, SourceRead, SourceRefusal, SourceRun
from debugger.adapters.runtimes.ai_sdk_loop import read_loop
from debugger.adapters.runtimes.ai_sdk_receipts import run_of
from debugger.adapters.runtimes.source_json import Unfit, parsed


class AiSdkImporter:
    """Reads files of the form `stop-evidence/1`, written where `generate` or `stream` was called.

    A file that holds no loop, or one of another major version, is refused as a whole; the others are read.
    """

    versions: tuple[str, ...] = ("7.0.173", "6.0.326")

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return a run for each loop; two files with the same loop are one run."""
        runs: dict[str, SourceRun] = {}
        refused: list[SourceRefusal] = []
        for file in files:
            try:
                value = parsed(file.content)
                run, cut = run_of(value, read_loop(value), key)
            except Unfit as error:
                refused.append(SourceRefusal(file.label, error.field, error.rule))
                continue
            runs[run.external_ref] = run
            refused += [SourceRefusal(file.label, field, rule) for field, rule in cut]
        return SourceRead(tuple(runs.values()), tuple(refused))
