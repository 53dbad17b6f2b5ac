"""Weak and strong augmentation of whole batches: what is drawn, and two ways to paint it."""
