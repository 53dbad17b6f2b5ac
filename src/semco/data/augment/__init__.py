"""Weak and strong augmentation of whole batches: the random draws, and how the views are made."""
