"""A copied home is another home: it starts nothing that the first one started."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from debugger.recorder import branching, homes
from debugger.recorder.conformance.gate import Gate, claims_of
from debugger.recorder.homes import place_of
from tests.recorder.team import World, build
from tests.recorder.test_branching import fork, recorded, reuse_all


def test_a_home_stays_itself_by_whatever_name_it_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, link = tmp_path / "home", tmp_path / "link"
    home.mkdir()
    link.symlink_to(home)
    monkeypatch.chdir(tmp_path)
    assert place_of(home) == place_of(link) == place_of(Path("home")) == place_of(home)


def test_a_copy_and_a_home_in_another_place_are_other_homes(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    first = place_of(home)
    copy = Path(shutil.copytree(home, tmp_path / "copy"))
    assert place_of(copy) != first
    home.rename(tmp_path / "away")
    copy.rename(home)
    assert place_of(home) != first  # the copy stands where the home was


def test_the_same_folder_on_another_machine_is_another_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = tmp_path / "machine-id"
    monkeypatch.setattr(homes, "_MACHINE", machine)
    found = [place_of(tmp_path)]
    for text in ("a\n", "b\n"):
        machine.write_text(text)
        found.append(place_of(tmp_path))
    assert len(set(found)) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_copied_home_does_not_start_a_permit_again(gate: Gate, world: World) -> None:
    recorder, graph, run = recorded(gate, world)
    envelope: dict[str, Any] = gate.permit(checkpoint=fork(gate, run), operations=reuse_all(gate, run))
    shutil.copytree(world.home, world.home.parent / "copied")
    assert branching.resume(recorder, graph, envelope) == "natural_finish"
    assert recorder.flush(60)
    recorder.close()
    sent = len(world.delivered())
    world.home = world.home.parent / "copied"
    again = world.open(gate.url)
    assert branching.resume(again, build(again, world), envelope) == "refused_already_redeemed"
    assert len(set(gate.redemptions.values())) == 1
    assert len(gate.of(str(claims_of(envelope)["branch"]), "started")) == 1
    assert len(world.delivered()) == sent
