"""Topologies, meshes and shard layouts."""
