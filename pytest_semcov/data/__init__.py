"""Samples in and out: sources, decoding, rendered scenes."""
