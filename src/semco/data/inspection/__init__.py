"""Facts about single images, and the search for duplicates among them."""
