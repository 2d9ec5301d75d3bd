"""What arrives: jobs, generators, readers of traces, and the columnar store."""
