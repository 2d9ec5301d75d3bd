"""The optimiser that planning and genetic scheduling share: which task on which node, and the moves
to get there."""
