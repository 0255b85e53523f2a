"""The closed schema of every kind of receipt, by who may write it."""

from typing import Final

from branches.evidence.kinds.forms import Schema
from branches.evidence.kinds.outside import OUTSIDE
from branches.evidence.kinds.product import PRODUCT
from branches.evidence.kinds.workspace import WORKSPACE

BODIES: Final[dict[str, Schema]] = {**OUTSIDE, **PRODUCT, **WORKSPACE}
OUTSIDE_KINDS: Final = frozenset(OUTSIDE)
PRODUCT_KINDS: Final = frozenset(PRODUCT)
WORKSPACE_KINDS: Final = frozenset(WORKSPACE)

__all__ = ["BODIES", "OUTSIDE_KINDS", "PRODUCT_KINDS", "WORKSPACE_KINDS", "Schema"]
