"""The architectures of the engine, one folder each."""
