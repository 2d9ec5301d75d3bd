"""DEPAS message by message: workers, the entry point, and how they find and hand work to each
other."""
