"""Where notices are sent besides mail."""
