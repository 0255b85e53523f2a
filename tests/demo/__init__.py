"""The demo: its desk, its tools and its team."""
