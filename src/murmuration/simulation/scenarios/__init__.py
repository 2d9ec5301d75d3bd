"""Scenarios: their keys and defaults, the checks on load, and the inputs they describe."""
