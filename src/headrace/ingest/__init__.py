"""Documents in, ledger out: the application on top of flow, execution, OCR, extraction, ledger and storage."""
