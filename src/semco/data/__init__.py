"""From images on a disk to the batches of a step.

Nothing is imported here: `semco.data.class_names` is to be had without torch.
"""
