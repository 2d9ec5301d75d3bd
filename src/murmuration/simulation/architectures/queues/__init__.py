"""Schedulers that take jobs off a queue and read the table themselves: monolithic, partitioned,
shared state."""
