"""The built-in plug-ins against real repositories, servers and stores."""
