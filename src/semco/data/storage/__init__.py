"""From image files to pixels that may be larger than memory: decoded in chunks, stored in files, memory-mapped."""
