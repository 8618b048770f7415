"""Translators and augmentation with provenance."""
