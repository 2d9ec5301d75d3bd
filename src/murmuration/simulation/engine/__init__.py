"""Virtual time for whole clusters: the world, its event queue, the steps of a job, and the loop."""
