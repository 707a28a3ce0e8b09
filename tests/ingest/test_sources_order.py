"""Natural path order, encoded so that plain bytes comparison gives it."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.ingest.sources import natural_key

IN_ORDER = [
    ["a2", "a10"],
    ["a2.jpg", "a10.jpg", "a10b.jpg", "b1.jpg"],
    ["2026-2-9", "2026-2-10", "2026-10-1"],
    ["a", "a/b", "a/b/c", "a b", "a-b", "a.b", "a0", "ab"],
    ["a/z", "a.jpg"],
    ["a/2/x", "a/10/b"],
    ["a-1", "a1"],
    ["9", "10", "99", "100", "1" + "0" * 300],
    ["0", "1"],
    ["B", "a"],
    ["z", "ä", "日本"],
    ["a0", "a00"],
    ["a01", "a1", "a02", "a2"],
    ["a01/b", "a01/z", "a1/a"],
]


@pytest.mark.parametrize("paths", IN_ORDER, ids=lambda paths: paths[0][:12] + " " + paths[1][:12])
def test_paths_sort_as_a_person_counts(paths: list[str]) -> None:
    shuffled = random.Random(7).sample(paths, len(paths))
    assert sorted(shuffled, key=natural_key) == paths


def test_composed_and_decomposed_names_stand_side_by_side() -> None:
    composed, decomposed = "M\u00fcller 1", "Mu\u0308ller 1"
    names = [composed, decomposed, "Mu", "Mz", "M\u00fcller 2"]
    ordered = sorted(names, key=natural_key)
    assert abs(ordered.index(composed) - ordered.index(decomposed)) == 1
    assert natural_key(composed) != natural_key(decomposed)


def test_the_key_of_text_is_the_key_of_its_bytes() -> None:
    assert natural_key("M\u00fcller/a10.jpg") == natural_key("M\u00fcller/a10.jpg".encode())


def test_the_key_takes_no_part_from_the_locale() -> None:
    code = (
        "import sys; from headrace.ingest.sources import natural_key; print(natural_key(b'M\\xc3\\xbcller/a10').hex())"
    )
    for language in ("C.UTF-8", "de_DE.UTF-8", "C"):
        out = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "LC_ALL": language}, capture_output=True, check=True
        )
        assert out.stdout.decode().strip() == natural_key(b"M\xc3\xbcller/a10").hex()


component = st.one_of(
    st.text(alphabet="ab019 .-\u00fcu\u0308\x01\x02/", min_size=0, max_size=6).map(lambda t: t.encode()),
    st.binary(min_size=0, max_size=5),
)
path = st.lists(component, min_size=1, max_size=3).map(b"/".join)


def model(raw: bytes) -> list[tuple[list[Any], bytes]]:
    """The wanted order, said with Python's own comparison: numbers by value in the place of the digit 0."""

    def tokens(part: bytes) -> list[Any]:
        text = unicodedata.normalize("NFC", part.decode("utf-8", "surrogateescape"))
        runs = re.findall(rb"[0-9]+|[^0-9]", text.encode("utf-8", "surrogateescape"), re.DOTALL)
        return [(ord("0"), int(run)) if run.isdigit() else (run[0], 0) for run in runs]

    return [(tokens(part), part) for part in raw.split(b"/")]


@given(path, path)
@example(b"a", b"a\x00")
@example(b"a0", b"a0b")
@example(b"a/b", b"a\x00b")
def test_comparing_keys_is_comparing_paths_in_the_wanted_order(one: bytes, other: bytes) -> None:
    assert (natural_key(one) < natural_key(other)) == (model(one) < model(other))
    assert (natural_key(one) == natural_key(other)) == (one == other)


@given(st.lists(path, max_size=8, unique=True), st.randoms())
def test_any_order_of_listing_sorts_to_the_same_order(paths: list[bytes], chance: random.Random) -> None:
    shuffled = list(paths)
    chance.shuffle(shuffled)
    assert sorted(shuffled, key=natural_key) == sorted(paths, key=natural_key)
