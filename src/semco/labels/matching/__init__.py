"""Class name -> term: spellings, routes and the look-up in a vocabulary."""
