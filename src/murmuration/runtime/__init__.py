"""Real time: the transport, the clock, the store and the isolation of a live cluster. It wires; it never decides."""
