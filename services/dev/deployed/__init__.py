"""A stack whose processes somebody else starts: docker compose, Kubernetes, systemd. Each is told the same settings."""
