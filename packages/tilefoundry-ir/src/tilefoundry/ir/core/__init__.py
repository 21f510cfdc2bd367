"""Expressions, ops, kinds, patterns and modules. Import the submodule that holds what you need."""
