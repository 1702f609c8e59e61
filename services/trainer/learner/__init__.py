"""The trainer's `Learner` on veRL. Importing it imports torch and veRL."""

from services.trainer.learner.verl import VerlLearner

__all__ = ["VerlLearner"]
