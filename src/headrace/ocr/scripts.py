"""Which scripts are looked for. Apart from the tables, so that choosing loads no library."""

from __future__ import annotations

from enum import StrEnum


class Scripts(StrEnum):
    """Which characters are looked for. `AUTO`: Latin ones, unless the page shows that it is in another script."""

    AUTO = "auto"
    LATIN = "latin"
    ALL = "all"
