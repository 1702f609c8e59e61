"""What a run tells: metrics, trackers, files and pictures, with every token accounted for."""
