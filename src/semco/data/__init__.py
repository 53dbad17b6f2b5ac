"""Data: from image files to the batches of a training step.

This file imports nothing, so that `semco.data.class_names` can be used without loading torch.
"""
