"""Extraction: from the text on a document to the fields of a receipt, by rules that name their evidence."""

from headrace.extraction.extractor import extract

__all__ = ["extract"]
