"""Reading documents: from bytes to the text on each page. Importing this package loads no image or model library."""
