"""Groups of classes whose names mean similar things: rules, tables."""
