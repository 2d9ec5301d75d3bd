"""Real time: transport, store, API, clock, and the processes of a live cluster. It wires; it
decides nothing."""
