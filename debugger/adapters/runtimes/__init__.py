"""Runtimes whose own stores can be read."""
