"""Where documents come from: folders, patterns, files, standard input, manifests and archives, all read lazily."""

from headrace.ingest.sources.arguments import MAX_MEMBER_BYTES, parse_sources
from headrace.ingest.sources.order import natural_key
from headrace.ingest.sources.source import BrokenSource, Content, Found, Source, SourceError

__all__ = [
    "MAX_MEMBER_BYTES",
    "BrokenSource",
    "Content",
    "Found",
    "Source",
    "SourceError",
    "natural_key",
    "parse_sources",
]
