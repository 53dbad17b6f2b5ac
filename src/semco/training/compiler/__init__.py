"""torch.compile: whether it pays, its cache of compiled code and its processes."""
