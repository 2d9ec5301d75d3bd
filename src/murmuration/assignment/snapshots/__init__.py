"""From named nodes and tasks to a problem of the optimiser: what every reader of snapshots shares.

It lies below the readers (`kubernetes/`, `planning/snapshots/`), which may not import each other:
`builder` makes the arrays, `catalogue` knows prices and sizes of nodes a snapshot leaves out,
`additions` makes nodes that are not there yet, `folding` takes out what belongs to a node.
"""
