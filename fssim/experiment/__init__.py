"""Experiments: a question, a grid of cells, measured references, and claims that the prediction is held to."""
