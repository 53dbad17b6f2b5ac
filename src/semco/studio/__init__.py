"""The Studio: a local web page on which a person names classes, labels photos, trains, reviews and exports."""
