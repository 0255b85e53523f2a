"""Built-in plug-ins, found by entry point like anyone else's."""
