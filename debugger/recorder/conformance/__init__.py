"""Tries a recorder against a gate that misbehaves, and says what of its promises it kept."""

from debugger.recorder.conformance.suite import SUITE, Report, run_suite

__all__ = ["SUITE", "Report", "run_suite"]
