"""Rows to facts to rules to what a page or an audit shows."""
