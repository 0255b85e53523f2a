"""A running server with an engineer signed in: publish a workflow, and read what the audits say of a run."""

import html
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from tests import worlds
from tests.js.served import Served, served
from tests.patience import PATIENCE_S, comes

MARKER: Final = "CONTENT-MARKER-7f3a"
_SIGNED_IN: Final = """
import json
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from branches.commands.admit import grant_role, issue_token, make_workspace
from branches.models import Person, Role
workspace = make_workspace(name="main")
ada = Person.objects.create_user("ada", password="correct horse battery")
grant_role(person=ada, workspace=workspace, role=Role.ENGINEER)
session = SessionStore()
session[SESSION_KEY] = str(ada.pk)
session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
session[HASH_SESSION_KEY] = ada.get_session_auth_hash()
session.create()
_, token = issue_token(workspace=workspace, name="recorder", scopes=["ingest", "redeem", "read"])
print(json.dumps([token, session.session_key]))
"""
# Words that only an independent receipt may earn.
EARNED: Final = ("verified", "verified_complete", "healthy")
SHOWN_AS_EARNED: Final = ("st-verified", "Confirmed there", "Confirmed by a receipt", ">Verified")


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API and the page say of a run."""

    stops: list[tuple[str, list[str]]]
    handoffs: list[tuple[str, list[str]]]
    topology: tuple[str, list[str]] | None
    page: str
    """The audits page as it is read, without its marks."""


@dataclass(frozen=True, slots=True)
class Live:
    """A running server, a token of a recorder, and an engineer's session."""

    served: Served
    token: str
    session: str

    @property
    def url(self) -> str:
        return self.served.url

    def publish(self, declaration: Mapping[str, Any]) -> None:
        """Publish a workflow as a recorder's token may."""
        answer = httpx.post(
            f"{self.url}/api/v1/workflows",
            json={"declaration": declaration},
            headers={"Authorization": f"Bearer {self.token}"},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 201, answer.text

    def run_in_django(self, script: str, **env: str) -> None:
        """Run a script as a worker of the server would, on its database."""
        made = worlds.manage("shell", "--verbosity", "0", "-c", script, env={**self.served.env, **env})
        assert made.returncode == 0, made.stderr[-2000:]

    def seen(self, run: str, *, is_confirmed: bool = False) -> Seen:
        """Return the audits of a run; without an outcome receipt it is called verified nowhere."""
        said = self.served.get(f"runs/{run}/audits").json()
        answer = httpx.get(
            f"{self.url}/runs/{run}/audits/", cookies={"sessionid": self.session}, timeout=PATIENCE_S
        )
        assert answer.status_code == 200
        assert MARKER not in answer.text + json.dumps(said)
        states = [each["state"] for each in (*said["stops"], *said["handoffs"])]
        verdict = said["topology"]
        if not is_confirmed:
            assert not set(EARNED) & {*states, *([] if verdict is None else [verdict["verdict"]])}
            assert [words for words in SHOWN_AS_EARNED if words in answer.text] == []
        return Seen(
            [(each["state"], each["reasons"]) for each in said["stops"]],
            [(each["state"], each["reasons"]) for each in said["handoffs"]],
            None if verdict is None else (verdict["verdict"], verdict["reasons"]),
            _read(answer.text),
        )

    def new_runs(self, before: set[str], count: int) -> list[str]:
        """Return the runs that came since, the oldest first."""
        assert comes(lambda: len(self.served.runs() - before) >= count)
        found = self.served.runs() - before
        return sorted(found, key=lambda run: self.served.receipts(run)[0]["recorded_at"])


@contextmanager
def live(folder: Path) -> Iterator[Live]:
    """Serve until the caller is done."""
    with served(folder) as running:
        made = worlds.manage("shell", "--verbosity", "0", "-c", _SIGNED_IN, env=running.env)
        assert made.returncode == 0, made.stderr[-2000:]
        token, session = json.loads(made.stdout.splitlines()[-1])
        yield Live(running, token, session)


def _read(page: str) -> str:
    """Return a page's words with single spaces between them."""
    body = page.partition("<main")[2]
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", body)))
