"""What a checkout needs besides its services: its environment, images, a Kubernetes, its generated pages."""
