"""The AutoGen recorder, on real teams with fake models."""
