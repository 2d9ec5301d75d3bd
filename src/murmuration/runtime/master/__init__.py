"""The master process: its engine, its HTTP API and what that answers."""
