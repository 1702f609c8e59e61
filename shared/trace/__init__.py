"""Traces: what a service publishes, as OpenTelemetry spans. `export.py` is the one place that knows OpenTelemetry."""
