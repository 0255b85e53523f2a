"""The only writers: one file a verb, keyword-only, each in one transaction."""
