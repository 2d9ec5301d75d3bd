"""Where to begin: what has a name, and files to start from."""
