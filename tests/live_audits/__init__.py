"""Real runs of each runtime on a running server, up to their three audits."""
