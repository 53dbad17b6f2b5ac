"""Weak and strong augmentation of whole batches as tensor code: pixels, tables, and the canvas that holds them."""
