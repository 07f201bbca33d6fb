# Load generator and experiments.
