"""Probes: each measures one sort of state and keeps none of its content."""
