"""The run folder: its files, its checkpoints, its result, and what makes two runs the same."""
