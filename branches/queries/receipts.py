"""A run's chain as evidence: its receipts, and whether every link still holds."""

import json
from collections.abc import Iterator
from contextlib import suppress

from branches.evidence import canonical
from branches.evidence.chain import ChainFault, ChainVerdict, verify_chain
from branches.models import Receipt, Redemption, Run
from branches.queries.chains import latest
from branches.queries.receipt_columns import columns_of

_COLUMNS = ("seq", "event_id", "writer", "kind", "subject", "digest")


def verify_run(run: Run) -> ChainVerdict:
    """Recompute a run's whole chain from its exact bytes, and the parent's link it starts from.

    The columns that find a receipt again, and the facts that were sealed, have to be those of the bytes.
    """
    differing: list[int] = []
    verdict = verify_chain(_exact(run, differing), expect_first_prev=_first_prev(run), run=run.uid)
    if verdict.ok and not differing and (seal := _broken_seal(run)) is not None:
        differing.append(seal)
    if differing and (verdict.ok or differing[0] < (verdict.broken_seq or 0)):
        place = differing[0]
        before = Receipt.objects.filter(run=run, seq=place - 1).values_list("digest", flat=True).first()
        return ChainVerdict(False, place - 1, before, place, ChainFault.COLUMNS_DIFFER)
    return verdict


def _exact(run: Run, differing: list[int]) -> Iterator[bytes]:
    """Yield the exact bytes in order, and note the place of the first row that says something else."""
    rows = Receipt.objects.filter(run=run).order_by("seq").values_list(*_COLUMNS, "body")
    for place, (*columns, text) in enumerate(rows.iterator(chunk_size=2000), 1):
        yield text.encode()
        if not differing and not _is_of(text, columns):
            differing.append(place)


def _is_of(text: str, columns: list[object]) -> bool:
    with suppress(ValueError, TypeError, KeyError):
        return columns_of(json.loads(text)) == tuple(columns)
    return False


def _broken_seal(run: Run) -> int | None:
    """Return the seq of the seal whose facts are not those that the redemption holds."""
    done = Redemption.objects.filter(branch=run).first()
    sealed = latest(run.pk, "sealed")
    if done is None or sealed is None:
        return None if (done is None) == (sealed is None) else (sealed.seq if sealed else 1)
    facts = canonical.digest(canonical.FACTS, json.loads(done.sealed_facts))
    return None if facts == sealed.body["facts"] else sealed.seq


def _first_prev(run: Run) -> str | None:
    if run.parent_id is None:
        return None
    fork = run.fork_point
    row = Receipt.objects.filter(run_id=fork.parent_id, seq=fork.seq).values_list("digest", flat=True).first()
    return row if row is not None else "missing"


def runs_to_verify(uid: str | None) -> list[Run]:
    """Return one run by its id (or none), or every run, parents before their branches."""
    rows = Run.objects.select_related("workspace", "workflow", "recorder", "root", "parent").order_by("id")
    return list(rows if uid is None else rows.filter(uid=uid))
