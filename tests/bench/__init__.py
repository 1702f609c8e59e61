"""Benchmarks. `python -m tests.bench.gateway` is `make bench-gateway`."""
