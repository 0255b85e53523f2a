"""The recorder, run for real on LangGraph against a small gate."""
