"""The one way a command says no: a field, a rule, and never the value."""

from typing import Any


class Unanswered(Exception):
    """Nobody answered, and asking again is safe: nothing was recorded, the work waits for its next try."""


class Refused(Exception):
    """A command that changed nothing, and the rule that said so; `difference` is content-free."""

    # No frozen dataclass: whoever passes an exception on sets its traceback.
    def __init__(self, rule: str, field: str = "", difference: tuple[Any, ...] = ()) -> None:
        super().__init__(rule, field)
        self.rule = rule
        self.field = field
        self.difference = difference

    def __str__(self) -> str:
        return f"{self.field}: {self.rule}" if self.field else self.rule
