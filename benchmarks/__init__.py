"""Measurements of speed and memory: what `make bench` runs. Not part of the package."""
