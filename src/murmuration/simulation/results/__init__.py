"""What a run yields: summary, series, explanations, invariants, snapshots."""
