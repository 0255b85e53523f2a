"""Measurements, printed as ratios taken in one run on one machine; nothing here is a timed test."""
