"""The tables, figures and groups of the paper: data, and how they are trained and compared."""
