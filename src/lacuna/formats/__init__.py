"""Files of translations: one parser for each format, for corpora (what is translated) and documents (what is not)."""
