"""Models by role: endpoints, prompts, what they propose, build, refine and judge."""
