"""Run exported models in ONNX files; an untrusted file is first tried in a separate process."""
