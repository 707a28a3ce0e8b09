"""headrace: floods of receipts become an ordered, checked ledger; the flow-control engine is a library of its own."""

__version__ = "0.1.0"
