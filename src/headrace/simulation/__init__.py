"""Documents with a known truth: receipts that are drawn, hostile files that are made, and the score of a run on them."""
