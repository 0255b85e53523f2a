"""Every badge that a page may print, with what it means: one sheet to look them up."""

from typing import Final

from branches.queries import receipt_page, run_stop, words
from branches.queries.words import Badge, Shape

type Group = tuple[str, tuple[tuple[Badge, str], ...]]


def _badge(icon: str, words: str, shape: Shape = Shape.OUTLINE, hue: str = "") -> Badge:
    return Badge(icon, hue or icon, words, shape)


SHEET: Final[tuple[Group, ...]] = (
    (
        "Permission to resume: our gates",
        (
            (_badge("pass", "Gate passes"), "our own check: a ring with a tick, never filled"),
            (_badge("ready", "Ready to resume"), "gates 1 to 5 pass; a ring with a play sign"),
            (
                _badge("blocked", "Effects unreconciled"),
                "an octagon with a bar; names the first gate that is shut",
            ),
            (
                _badge("uncertain", "Restore uncertain", Shape.DASH),
                "a dashed ring: what the state is now is not known",
            ),
            (_badge("waiting", "Waiting for approval"), "a diamond with a clock: somebody was asked"),
            (_badge("unrouted", "Needs approval", Shape.DASH), "nobody was asked yet"),
            (_badge("stale", "Approval superseded", Shape.DASH), "it was true once; check or ask again"),
            (_badge("working", "Resuming"), "the permit is redeemed and no start receipt has come"),
            (_badge("pass", "Sealed"), "resumed by its one redemption; a changed mind is a sibling"),
        ),
    ),
    (
        "Outcome at destination: its evidence",
        (
            (
                words.VERIFIED,
                "a filled seal: the destination holds this branch’s outcome; only gate 6 prints it",
            ),
            (run_stop.CONFIRMED, "the same for a run without gates"),
            (words.FALSE_SUCCESS, "a cracked seal: success was claimed and the destination denies it"),
            (words.OUTCOME_UNCERTAIN, "the destination did not answer; ask again"),
            (words.CLAIMED, "the agent says so and nobody asked"),
            (words.UNFINISHED, "it ended without a claim"),
            (words.NO_RECEIPT, "a dotted ring: nothing is known"),
        ),
    ),
    (
        "External effects",
        (
            (_badge("reconciled", "Reconciled"), "our record and the destination agree"),
            (_badge("reverted", "Reverted"), "it was undone, or never happened"),
            (_badge("waiting", "Pending"), "not settled; it blocks"),
            (_badge("irreversible", "Irreversible"), "it cannot be undone; it blocks until somebody decides"),
        ),
    ),
    (
        "Stops of a run",
        (
            (run_stop.RUNNING, "no stop receipt has come"),
            (_badge("toolfail", "Failed", hue="failed"), "a tool or provider failed"),
            (_badge("stuck", "Stuck"), "it went on without progress"),
            (_badge("bounded", "Bounded stop"), "a limit was reached"),
            (_badge("waiting", "Waiting"), "it waits for somebody who was asked"),
            (_badge("uncertain", "Uncertain", Shape.DASH), "its record does not say why it stopped"),
            (_badge("claimed", "Says complete", Shape.DASH), "its own word; see the outcome beside it"),
            (run_stop.WENT_ON, "it waited for an approval, and later receipts show that it went on"),
            (run_stop.NO_END, "it was imported, and no stop came with it"),
            (run_stop.TOOL_LIST, "a list of tools was imported: nothing that runs"),
        ),
    ),
    (
        "Receipts",
        (
            (receipt_page.INTACT, "recomputed from the exact bytes, every link fits"),
            (receipt_page.BROKEN, "a link does not fit the one before"),
            (receipt_page.STALE, "receipts came after the check"),
            (receipt_page.UNFINISHED, "the worker was lost or failed"),
            (receipt_page.NOT_CHECKED, "nobody asked for a check"),
        ),
    ),
)
