"""A model class for mini-swe-agent: its own client for OpenRouter, with this run's address.

Its default client, litellm, takes five seconds of CPU to import, most of a rollout here. This one starts in less than one.
"""

import os

from minisweagent.models.openrouter_model import OpenRouterModel  # type: ignore[import-not-found]


class PlainModel(OpenRouterModel):  # type: ignore[misc]
    """Sends the same requests to $OPENAI_API_BASE."""

    def __init__(self, **config: object) -> None:
        super().__init__(**config)
        self._api_url = os.environ["OPENAI_API_BASE"] + "/chat/completions"
        self._api_key = os.environ["OPENAI_API_KEY"]
