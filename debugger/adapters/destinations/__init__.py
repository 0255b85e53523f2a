"""Destinations: asked by the stable operation key, and for the expected outcome."""
