"""Values of a receipt as JSON types, for the rules that compare receipts with each other."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Any


def field_value(of: Any, name: str) -> str | None:
    """The value of a field object as text; None where the field is missing, empty or no field."""
    found = of.get(name) if isinstance(of, Mapping) else None
    value = found.get("value") if isinstance(found, Mapping) else None
    return str(value) if value not in (None, "") else None


def letters(text: str) -> str:
    """Letters and digits alone, without case: what two readings of one name agree in."""
    return "".join(c for c in unicodedata.normalize("NFKC", text).casefold() if c.isalnum())
