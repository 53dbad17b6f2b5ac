"""What pseudo-labelling did in runs: tables per class and per image, from which the report draws its figures."""
