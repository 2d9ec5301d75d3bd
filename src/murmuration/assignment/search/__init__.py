"""How good assignments are found: construction, local search, ejection chains, CP-SAT, NSGA-style
selection."""
