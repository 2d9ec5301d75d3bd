"""Mesos: resource offers, dynamic partitioning, sharing and locality."""
