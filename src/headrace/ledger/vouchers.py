"""Voucher numbers: contiguous from 1 in each book, given by the book's one writer, never reused.

How they are spelt is known to the documents layer too, since stores look entries up by them.
"""

from headrace.documents.entry import format_voucher as voucher
from headrace.documents.entry import parse_voucher

__all__ = ["parse_voucher", "voucher"]
