"""Records of verdicts, and what is made of them."""
