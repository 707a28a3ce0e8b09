"""Documents with a known truth: drawn receipts, hostile files, and the score of a run on them."""
