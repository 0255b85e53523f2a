"""Where everything of the demo lies: one folder, and nothing outside it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER_ENV: Final = "BRANCHGATE_DEMO_FOLDER"


@dataclass(frozen=True, slots=True)
class DemoWorld:
    """The demo's folder, the desk's port and the Python that runs its programs."""

    folder: Path
    desk_port: int
    python: str

    @classmethod
    def load(cls, folder: Path) -> "DemoWorld":
        """Read a layout that was saved. Raises OSError or ValueError where there is none."""
        kept = json.loads((folder / "layout.json").read_text())
        return cls(folder.resolve(), int(kept["desk_port"]), str(kept["python"]))

    def save(self) -> None:
        """Keep the layout in its folder."""
        kept = {"desk_port": self.desk_port, "python": self.python}
        (self.folder / "layout.json").write_text(json.dumps(kept))

    @property
    def desk_url(self) -> str:
        """The desk's address."""
        return f"http://127.0.0.1:{self.desk_port}"

    @property
    def desk_store(self) -> Path:
        """The desk's own database."""
        return self.folder / "desk" / "desk.sqlite"

    @property
    def workspace(self) -> Path:
        """The team's git work tree."""
        return self.folder / "workspace"

    @property
    def approvals(self) -> Path:
        """The journal of the team's approval queue."""
        return self.folder / "approvals.jsonl"

    @property
    def cookie_file(self) -> Path:
        """The cookie of the team's browser session."""
        return self.folder / "browser" / "cookie.txt"

    @property
    def checkpoints(self) -> Path:
        """The team's memory: LangGraph's checkpoints."""
        return self.folder / "memory" / "checkpoints.sqlite"

    @property
    def recorder_home(self) -> Path:
        """The recorder's keys, spool and journal."""
        return self.folder / "recorder"

    @property
    def targets(self) -> Path:
        """The server's targets file."""
        return self.folder / "targets.json"

    @property
    def recorder_targets(self) -> Path:
        """The recorder's targets file: it cannot see the approval queue."""
        return self.folder / "recorder-targets.json"

    @property
    def token_file(self) -> Path:
        """Where the recorder's token is put, for the recorder's program to read."""
        return self.folder / "recorder-token"
