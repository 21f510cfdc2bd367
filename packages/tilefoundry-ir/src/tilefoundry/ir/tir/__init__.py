"""The statement-level IR: explicit buffers, loops and launches."""
