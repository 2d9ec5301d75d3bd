"""Images of containers: found where the operator keeps them, verified, unpacked once per node, and
removed when nobody needs them and room is short."""
