"""The machines' keys to a workspace: what each may do, until when, and when it was last used."""

from dataclasses import dataclass
from datetime import datetime

from branches.models import ApiToken, Workspace
from branches.queries.clock import now


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token as the page shows it; it stands as open, ended or expired."""

    token: ApiToken
    stands: str
    ended_at: datetime | None
    used_at: datetime | None
    recorders: int


def tokens_page(workspace: Workspace) -> tuple[TokenRow, ...]:
    """Return the tokens of a workspace: those that are accepted first, the newest first."""
    at = now()
    rows = ApiToken.objects.filter(workspace=workspace).select_related("end", "use")
    found = [_row(row, at) for row in rows.prefetch_related("recorders").order_by("-id")]
    return tuple(sorted(found, key=lambda row: row.stands != "open"))


def _row(token: ApiToken, at: datetime) -> TokenRow:
    end, use = getattr(token, "end", None), getattr(token, "use", None)
    stands = "ended" if end is not None else "open" if at < token.expires_at else "expired"
    return TokenRow(
        token,
        stands,
        end.at if end is not None else None,
        use.used_at if use is not None else None,
        len(token.recorders.all()),
    )
