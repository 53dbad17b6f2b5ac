"""Measurements of speed, each as ratios inside one run."""
