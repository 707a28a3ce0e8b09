"""What can go wrong with search.

SearchError
  EmbedderMissing        the model, or a package for it, is not installed
  EmbedderFailed         an endpoint answered, and not with vectors
  VectorsDiffer          vectors of another width than those that are kept under the same model name
  BadQuery               nothing to look for, or a filter that makes no sense
"""

from __future__ import annotations

from typing import ClassVar


class SearchError(Exception):
    """Search cannot do what was asked; the message says what to do next. `exit_code` is for the command line."""

    exit_code: ClassVar[int] = 2


class EmbedderMissing(SearchError):
    """The model, or a package for it, is not installed."""

    exit_code = 6


class EmbedderFailed(SearchError):
    """An endpoint answered, and not with the vectors that were asked for."""

    exit_code = 3
    code = "embedder-failed"


class VectorsDiffer(SearchError):
    """The vectors that are kept under this model's name are of another width."""


class BadQuery(SearchError):
    """Nothing to look for, or a filter that makes no sense."""
