"""The nouns of headrace: documents, the text on them, the receipts read from them. They know no flow control."""
