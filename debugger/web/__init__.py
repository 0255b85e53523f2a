"""Pages: thin views over queries and commands."""
