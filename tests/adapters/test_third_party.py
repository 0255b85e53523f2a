"""A package of somebody else's adds a probe, a destination and a verifier without touching ours."""

import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from branches import registry
from branches.evidence.keys import HmacKey
from branches.ports import Answer, Check, Question, Target
from tests.adapters.places import MOMENT

KEY = HmacKey("0badc0de", b"k" * 32)
SOURCE = dedent('''
    """Measures a number in a file, asks whether a line is in it, and looks for its last line."""

    from pathlib import Path

    from branches.ports import Answer, Baseline, Check, DestinationAnswer, OutcomeCheck
    from branches.ports import StateMeasurement, Unsupported


    class NumberProbe:
        limits = "Only the number in the file is compared."
        remedy = "Write the number back into the file."

        def measure(self, target, moment):
            try:
                text = Path(target.text("path")).read_text()
            except OSError:
                return StateMeasurement(None, reachable=False, problem="file_unreadable")
            return StateMeasurement(target.key.digest("state", text), {"digits": len(text)})

        def capture(self, target, moment):
            raise Unsupported


    class LineDestination:
        limits = "A line that somebody else wrote looks the same."

        def ask(self, target, question):
            lines = Path(target.text("path")).read_text().splitlines()
            return DestinationAnswer(Answer.PRESENT if question.operation_key in lines else Answer.ABSENT)


    class LineVerifier:
        def baseline(self, target, expected):
            return Baseline(str(len(Path(target.text("path")).read_text().splitlines())), reachable=True)

        def check(self, target, expected, baseline_version, operation_keys=frozenset()):
            lines = Path(target.text("path")).read_text().splitlines()
            newer = [line for line in lines[int(baseline_version or 0):] if line in operation_keys]
            check = Check.PASSED if newer else Check.FAILED
            return OutcomeCheck(check, fresh=bool(newer), version=str(len(lines)))


    class Halved:
        limits = "It lacks what the port asks for."
''')
POINTS = """\
[branchgate.probes]
number = lines_package:NumberProbe
halved = lines_package:Halved
[branchgate.destinations]
line = lines_package:LineDestination
[branchgate.verifiers]
line = lines_package:LineVerifier
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The package as an installer leaves it: a module beside its metadata."""
    site = tmp_path / "site"
    metadata = site / "lines_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "lines_package.py").write_text(SOURCE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lines-package\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(site)
    registry._load.cache_clear()
    place = tmp_path / "lines.txt"
    place.write_text("12\n")
    yield place
    registry._load.cache_clear()
    sys.modules.pop("lines_package", None)


def test_it_is_found_by_its_entry_points(installed: Path) -> None:
    assert "number" in registry.names("probes")
    target = Target("lines", {"path": str(installed)}, KEY)
    first = registry.find("probes", "number").measure(target, MOMENT)
    assert first.fingerprint == KEY.digest("state", "12\n")
    assert (
        registry.find("destinations", "line").ask(target, Question("12", "write", None)).answer
        is Answer.PRESENT
    )
    verifier = registry.find("verifiers", "line")
    baseline = verifier.baseline(target, "line")
    installed.write_text("12\n13\n")
    assert verifier.check(target, "line", baseline.version, frozenset({"13"})).check is Check.PASSED
    assert verifier.check(target, "line", baseline.version, frozenset({"12"})).check is Check.FAILED


def test_one_that_lacks_what_its_port_asks_for_is_refused_by_name(installed: Path) -> None:
    with pytest.raises(registry.PluginUnfit, match="probes: halved"):
        registry.find("probes", "halved")
    with pytest.raises(registry.PluginMissing, match="probes: nowhere"):
        registry.find("probes", "nowhere")
