"""Semantics: descriptors, labelling, importance."""
