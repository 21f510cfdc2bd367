"""The statement-level IR: explicit buffers, loops, contractions and launches."""
