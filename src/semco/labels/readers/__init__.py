"""Readers of the official files: GloVe and Numberbatch text, word2vec binary, ConceptNet assertions.

All of them take plain, gzipped or zipped files (told apart by content, not by name), stream, and raise
`UserError` with file and line for what they cannot read.
"""
