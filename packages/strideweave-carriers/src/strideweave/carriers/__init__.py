"""Carriers: flat runs of slots in memory, on a device, in a file, or in two tiers."""
