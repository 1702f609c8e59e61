"""What a service says of itself: counts, health, and the small server that tells them. Every service has one `Watch`."""
