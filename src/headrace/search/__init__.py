"""Search in receipts: texts -> vectors -> an index, on the public pipeline API; words and meaning together."""

from headrace.search.embedder import Embedder, Tokens, Vector
from headrace.search.errors import BadQuery, EmbedderFailed, EmbedderMissing, SearchError
from headrace.search.filters import Filters
from headrace.search.indexing import Progress, rebuild, update
from headrace.search.search import Found, Hit, Search

__all__ = [
    "BadQuery",
    "Embedder",
    "EmbedderFailed",
    "EmbedderMissing",
    "Filters",
    "Found",
    "Hit",
    "Progress",
    "Search",
    "SearchError",
    "Tokens",
    "Vector",
    "rebuild",
    "update",
]
