"""Whole runs: train one, resume one, compare several."""

from semco.experiment.runs import resume, train, train_or_resume

__all__ = ["resume", "train", "train_or_resume"]
