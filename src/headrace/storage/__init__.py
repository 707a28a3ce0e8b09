"""Where batches, documents, entries and bytes are kept. `store` is the contract; the files beside it keep it."""
