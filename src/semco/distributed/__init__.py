"""Several processes: who they are, what they exchange, how they are started. Only this room uses torch.distributed."""
