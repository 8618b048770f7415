"""Encoders and embedders, extraction and its cache."""
