"""Readers of the official files: GloVe text, word2vec binary, ConceptNet assertions.

All of them accept plain, gzipped and zipped files (recognised by content, not by name), read block by block, and raise
a `UserError` that names the file and the line they cannot read.
"""
