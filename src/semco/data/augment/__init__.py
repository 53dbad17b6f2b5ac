"""Weak and strong augmentation of whole batches: the random draws, and two implementations that render the views."""
