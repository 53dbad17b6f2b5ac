"""A trained model and photos -> answers, tables of them, engines."""
