"""all-MiniLM-L6-v2: the program, its checkpoint and its hand-written twin."""
