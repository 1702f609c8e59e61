"""Engines for tests: a scripted one that speaks vLLM's API, and a tiny random model for a real vLLM."""
