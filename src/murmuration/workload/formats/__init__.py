"""Job lists, job files and usage tables as files."""
