"""A look at a folder of images before a run: what is in it, what is wrong with it, what to do next."""
