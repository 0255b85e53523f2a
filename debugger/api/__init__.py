"""Machines: routes, schemas and tokens."""
