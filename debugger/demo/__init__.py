"""A small world in which a run of an agent team fails: a desk, a team, and what lies round them."""
