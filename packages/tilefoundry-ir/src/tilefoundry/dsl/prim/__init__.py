"""Statement-level programs: ``@prim_func`` and what its body may say."""
