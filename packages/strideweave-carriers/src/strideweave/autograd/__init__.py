"""Reverse-mode gradients: nodes, saved versions, accumulation by carrier class."""
