"""Measurements of speed and memory, reported as ratios within one run because machines differ."""
