"""Ids of our form."""

import re

import pytest

from branches.evidence import ids


@pytest.mark.parametrize("prefix", ids.PREFIXES)
def test_it_mints_ids_of_its_own_form(prefix):
    minted = ids.mint(prefix)
    assert re.fullmatch(ids.ID_PATTERN, minted)
    assert ids.is_id(minted)
    assert ids.is_id(minted, prefix)
    assert len(minted) == len(prefix) + 25


def test_it_mints_a_new_id_each_time():
    assert len({ids.mint("run") for _ in range(1000)}) == 1000


def test_it_refuses_a_prefix_outside_the_list_without_repeating_it():
    for make in (ids.mint, ids.derive_id, ids.id_pattern):
        with pytest.raises(ids.PrefixError) as refusal:
            make("content-marker")
        assert "content-marker" not in str(refusal.value)


def test_it_derives_the_same_id_for_the_same_parts_only():
    permit = ids.mint("prm")
    assert ids.derive_id("att", permit) == ids.derive_id("att", permit)
    assert ids.is_id(ids.derive_id("att", permit), "att")
    different = {
        ids.derive_id("att", permit, "1"),
        ids.derive_id("att", permit, "2"),
        ids.derive_id("evt", permit),
    }
    assert len({text.split("_")[1] for text in different}) == 3
    assert ids.derive_id("att", "a", "bc") != ids.derive_id("att", "ab", "c")


@pytest.mark.parametrize(
    "text",
    [
        "br_" + "a" * 24 + "\n",
        "br_" + "a" * 23,
        "br_" + "a" * 25,
        "br_" + "A" * 24,
        "br_" + "1" * 24,
        "xx_" + "a" * 24,
        "a" * 24,
        "",
        None,
        7,
        b"br_" + b"a" * 24,
    ],
)
def test_it_knows_what_is_no_id(text):
    assert not ids.is_id(text)


def test_it_tells_sorts_of_ids_apart():
    assert not ids.is_id(ids.mint("br"), "run")
