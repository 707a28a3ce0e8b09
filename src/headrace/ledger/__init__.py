"""The ledger's decisions: vouchers, duplicates, verdicts and the hash chain. Pure: no files, no SQL, no clock."""

from headrace.documents.entry import GENESIS, Entry, FirstSeen, Head
from headrace.ledger.chain import Fault, Verification, verify
from headrace.ledger.policy import Policy, PolicyError
from headrace.ledger.writer import BookWriter, Draft

__all__ = [
    "GENESIS",
    "BookWriter",
    "Draft",
    "Entry",
    "Fault",
    "FirstSeen",
    "Head",
    "Policy",
    "PolicyError",
    "Verification",
    "verify",
]
