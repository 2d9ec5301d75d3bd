"""Frames, connections and HTTP."""
