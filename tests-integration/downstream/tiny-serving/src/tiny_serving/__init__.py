"""Serves one small language model, by hand-written kernels or by a library that was built elsewhere."""
