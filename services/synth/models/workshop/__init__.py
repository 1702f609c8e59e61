"""A harness as builder: it makes a task in a sandbox, by a task that asks it to, and is recorded as any other rollout."""
