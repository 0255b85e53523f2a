"""Imports saved team states, task results and message streams of AutoGen AgentChat: each talk is one run."""

from collections.abc import Sequence

from branches.evidence.keys import HmacKey
from branches.ports import SourceFile, SourceRead, SourceRefusal
from debugger.adapters.runtimes.autogen_files import Dump, read_dump
from debugger.adapters.runtimes.autogen_receipts import run_of
from debugger.adapters.runtimes.source_json import Unfit, parsed


class AutoGenImporter:
    """Reads what `save_state` gave, a `TaskResult` as JSON, or a list of messages with or without its result.

    Files that share a message are of one team, and one run. A message that its agent would read twice, in
    the buffer and in the model's context, is counted once and named; the state is inconsistent then.
    """

    versions: tuple[str, ...] = ("0.7.5",)

    def read(self, files: Sequence[SourceFile], key: HmacKey) -> SourceRead:
        """Return a run for each team; a file that cannot be read is refused as a whole."""
        dumps: list[Dump] = []
        refused: list[SourceRefusal] = []
        for file in files:
            try:
                dump = read_dump(file.label, parsed(file.content), key)
            except Unfit as error:
                refused.append(SourceRefusal(file.label, error.field, error.rule))
                continue
            dumps.append(dump)
            refused += [
                SourceRefusal(file.label, f"agent_states.*.message_buffer.{each.index}", "doubled_message")
                for each in dump.doubled
            ]
        runs = []
        for group in _groups(dumps):
            run, cut = run_of(group, key)
            runs.append(run)
            refused += [SourceRefusal(group[0].label, field, rule) for field, rule in cut]
        return SourceRead(tuple(runs), tuple(refused))


def _groups(dumps: list[Dump]) -> list[list[Dump]]:
    """Return the dumps by team: two that share a message, also through a third, are of one."""
    groups: list[tuple[set[str], list[Dump]]] = []
    for dump in dumps:
        ids = {said.id for said in dump.said}
        apart: list[tuple[set[str], list[Dump]]] = []
        own: tuple[set[str], list[Dump]] = (ids, [])
        for group in groups:
            if group[0] & ids:
                own = (own[0] | group[0], [*own[1], *group[1]])
            else:
                apart.append(group)
        groups = [*apart, (own[0], [*own[1], dump])]
    return [group for _, group in groups]
