"""From finished groups to tensors: advantages, weights, samples, mini-batches."""
