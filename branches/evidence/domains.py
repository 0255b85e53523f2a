"""The domains of keyed digests over what is foreign: ids, texts and states that never leave as they are.

A domain says what was digested, so that equal texts of two sorts have different digests. The words are
part of every digest ever recorded: changing one makes the record and its sources strangers.
"""

from typing import Final

THREAD: Final = "thread"
CHECKPOINT: Final = "checkpoint"
MESSAGE: Final = "message"
CONTENT: Final = "content"
OPERATION: Final = "operation"
PAYLOAD: Final = "payload"
STATE: Final = "state"
PROMPT: Final = "prompt"
NAME: Final = "name"
EDIT: Final = "edit"
CHANNEL: Final = "channel"
PART: Final = "part"
REF: Final = "ref"
