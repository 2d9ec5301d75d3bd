"""How many nodes: DEPAS without a centre, its overlay and analysis, central baselines. Pure."""
