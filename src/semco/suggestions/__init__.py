"""Which photos are most worth a label."""
