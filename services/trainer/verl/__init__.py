"""What veRL needs here beyond itself: a CPU as its platform, Muon, recorded experts, images, adapters."""
