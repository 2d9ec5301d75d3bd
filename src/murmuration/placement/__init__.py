"""Which node: placements by randomised first fit or by a score, and the explainer that says why."""
