"""From a trained run to something that works elsewhere: ONNX, torch.export, a model card, a small HTTP service."""
