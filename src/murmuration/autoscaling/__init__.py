"""How many nodes: DEPAS without a centre, the overlay it lives on, its analysis, and central baselines. Pure: told the load, it answers."""
