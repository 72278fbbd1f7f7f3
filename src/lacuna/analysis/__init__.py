"""Overviews of memories."""
