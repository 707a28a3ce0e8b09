"""The spelling that is hashed."""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ledger.entry import canonical_json, entry_hash

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
_OBJECTS = st.dictionaries(st.text(), _VALUES, max_size=6)


@given(_OBJECTS)
def test_canonical_json_read_and_written_again_is_the_same_bytes(value: dict[str, Any]) -> None:
    once = canonical_json(value)
    assert canonical_json(json.loads(once)) == once
    assert json.loads(once) == value


@given(_OBJECTS, st.randoms())
def test_the_order_of_keys_changes_nothing(value: dict[str, Any], random: Any) -> None:
    keys = list(value)
    random.shuffle(keys)
    assert canonical_json({key: value[key] for key in keys}) == canonical_json(value)


@given(
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=4),
)
def test_different_values_have_different_spellings(one: dict[str, int], other: dict[str, int]) -> None:
    assert (canonical_json(one) == canonical_json(other)) == (one == other)


def test_the_spelling_is_what_it_was_when_the_first_ledger_was_written() -> None:
    value = {"b": [1, 0.1, 1e22, -0.0, True, None], "a": "Kärcher 東京 😀", "": "\n\u2028\\"}
    assert canonical_json(value) == (
        '{"":"\\n\u2028\\\\","a":"Kärcher 東京 😀","b":[1,0.1,1e+22,-0.0,true,null]}'.encode()
    )


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    assert canonical_json({"a": "x\udc96"}) == b'{"a":"x\\udc96"}'
    assert json.loads(canonical_json({"a": "x\udc96"})) == {"a": "x\udc96"}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_refused(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": number})


def test_a_decimal_is_refused_instead_of_becoming_a_float() -> None:
    with pytest.raises(TypeError):
        canonical_json({"a": Decimal("1.10")})


def test_the_hash_can_be_computed_without_headrace() -> None:
    assert entry_hash("0" * 64, b"{}") == hashlib.sha256(b"0" * 64 + b"\n{}").hexdigest()
