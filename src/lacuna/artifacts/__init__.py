"""Artifacts on disk: atomic files and folders, manifests, locks, arrays, pages, and the cache of steps."""
