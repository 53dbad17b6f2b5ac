"""Exported models in ONNX files: tried first, because they may come from a stranger, then run."""
