"""Speaks to the desk over HTTP; every write carries the key under which the desk keeps it once."""

from typing import Any, Final
from urllib.parse import quote

import httpx

_TIMEOUT: Final = httpx.Timeout(10, connect=3)
_REFUSED: Final = 422


class DeskRefused(Exception):
    """The desk looked at it, said no, and did nothing."""


class DeskClient:
    """One desk, by its address."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT, trust_env=False)

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def write(self, path: str, key: str, content: dict[str, str]) -> dict[str, Any]:
        """Have something kept. Raises DeskRefused for the desk's no, HTTPError where it is not sure."""
        answer = self._client.post(path, json=content, headers={"Idempotency-Key": key})
        if answer.status_code == _REFUSED:
            raise DeskRefused(answer.json()["error"])
        answer.raise_for_status()
        kept: dict[str, Any] = answer.json()
        return kept

    def ask_to_publish(self, draft: str, key: str) -> dict[str, Any]:
        """Ask for a draft's publication; it comes later, if at all."""
        return self.write(f"/drafts/{quote(draft, safe='')}/publish", key, {})
