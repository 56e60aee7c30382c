"""Numbers in, verdicts out: metrics of two arrays, two sides of many tensors, and whether looking changed the engine."""
