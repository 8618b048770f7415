"""The models under test: predictions, scores on data sets, and what follows for a choice between models."""
