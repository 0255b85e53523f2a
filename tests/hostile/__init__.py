"""Attempts to break the record: many processes, forged rows, hostile bodies."""
