"""Settings of the models that make tasks, a table a role."""

from __future__ import annotations

from typing import Literal

from shared.config.base import Count, NonNegative, Section, Whole

_URLS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}


class EndpointConfig(Section, frozen=True, kw_only=True):
    """A model behind an API. Empty fields of a role that has no model of its own do not count: see `ModelsConfig.of`.

    Attributes:
        model: its name there; empty for a role that is not filled.
        api: what the endpoint speaks: `openai` chat completions, or `anthropic` messages.
        base_url: as its SDK wants it: with `/v1` for openai, without for anthropic; empty for that company's own.
        key_env: environment variable with the API key; empty for an endpoint that wants none.
        structured: how an answer is held to its schema: `schema`, the API's structured outputs; `tool`, a call of one tool;
            `prompt`, the schema stands in the prompt, for endpoints that can do neither.
        usd_per_mtok_in: price of a million tokens of prompt, in US dollars.
        usd_per_mtok_out: price of a million tokens of answer.
        max_tokens: of an answer, reasoning included.
        most_tokens: where an answer was cut off it is asked for again with twice the tokens, up to this many.
        temperature: None leaves it to the endpoint; OpenAI's reasoning models and Anthropic's own API refuse any.
        timeout_s: of one call.
        retries: of a call that was turned down for now (429), failed (5xx) or got no answer.
        concurrent: calls at the same time.
    """

    model: str = ""
    api: Literal["openai", "anthropic"] = "openai"
    base_url: str = ""
    key_env: str = ""
    structured: Literal["schema", "tool", "prompt"] = "schema"
    usd_per_mtok_in: NonNegative = 0.0
    usd_per_mtok_out: NonNegative = 0.0
    max_tokens: Count = 8192
    most_tokens: Count = 32768
    temperature: NonNegative | None = None
    timeout_s: NonNegative = 600.0
    retries: Whole = 6
    concurrent: Count = 4

    @property
    def url(self) -> str:
        """Where it is."""
        return self.base_url or _URLS[self.api]


class ModelsConfig(Section, frozen=True, kw_only=True):
    """Models that make tasks, where the generator is `models`.

    Attributes:
        proposer: has the ideas.
        builder: writes the tasks; the one of proposer and refiner, too, where they have none.
        refiner: mends what failed a gate.
        judge: judges tasks by a rubric, and conversations of teachers; nobody does where it has no model.
        harness: name of a harness (`claude`, `codex`, `react`) that builds tasks in sandboxes, in the place of single
            answers of the builder; its model is the one behind the proxy.
        seeds: file or folder that ideas are grounded in: scenarios (a text file, one a line), documents (a folder of text
            files), tasks to vary (a folder of task folders), or a repository (any other folder).
        kind: which of these it is; `auto` looks.
        seed_tokens: of a seed, or of the files drawn from a repository, as much goes into a prompt.
        personas: people that a task may be for; each proposal has one.
        skills: what tasks may call for; each proposal has two.
        prompts: folder with prompt files that take the place of those of the same name.
        cache: folder of answers; empty for one in the run folder. Runs that share one pay for the same question once.
    """

    proposer: EndpointConfig = EndpointConfig()
    builder: EndpointConfig = EndpointConfig()
    refiner: EndpointConfig = EndpointConfig()
    judge: EndpointConfig = EndpointConfig()
    harness: str = ""
    seeds: str = ""
    kind: Literal["auto", "scenarios", "documents", "tasks", "repository"] = "auto"
    seed_tokens: Count = 4000
    personas: list[str] = []
    skills: list[str] = []
    prompts: str = ""
    cache: str = ""

    def of(self, role: Role) -> EndpointConfig:
        """The endpoint of a role; that of the builder for one that has none, but for the judge, who is to be another."""
        own: EndpointConfig = getattr(self, role)
        return own if own.model or role == "judge" else self.builder


Role = Literal["proposer", "builder", "refiner", "judge"]
