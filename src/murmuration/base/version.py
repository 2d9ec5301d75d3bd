"""The version, read by the build and written into snapshots and reports."""

__version__ = "0.1.0"
