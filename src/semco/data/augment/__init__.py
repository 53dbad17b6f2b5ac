"""Weak and strong augmentation of whole batches as tensor code: maps, tables, and the canvas that holds them."""
