"""Inspect a folder of images before a run: what it contains, what is wrong with it, what to do next."""
