"""Virtual time: worlds of arrays, the kernels that advance them, and the runs built on them."""
