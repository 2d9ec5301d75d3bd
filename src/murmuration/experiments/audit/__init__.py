"""Was a run what its summary says? The story of every task and attempt is added up a second time,
with plain code that shares nothing with the kernels."""
