"""Qwen3-style decoders: the program and its checkpoint names."""
