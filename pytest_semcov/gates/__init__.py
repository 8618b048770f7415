"""Numbers in, verdict out."""
