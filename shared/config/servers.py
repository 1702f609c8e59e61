"""Settings of the run as a whole and of the servers that it needs."""

from __future__ import annotations

from typing import Literal

from shared.config.base import Count, Positive, Section
from shared.config.tls import TlsConfig


class RunConfig(Section, frozen=True, kw_only=True):
    """The run as a whole.

    Attributes:
        id: run id; empty makes a new one.
        root: folder that gets one folder per run.
        seed: of task order, sampling and everything else that draws.
        min_free_mb: free disk below which a run does not start, or ends with a message instead of a broken file.
    """

    id: str = ""
    root: str = "runs"
    seed: int = 0
    min_free_mb: Count = 500


class BusConfig(Section, frozen=True, kw_only=True):
    """NATS.

    Attributes:
        url: of a running server, or of several of a cluster with commas between; empty starts the embedded one.
        keys: folder with the key of each service, which `openforge keys make` writes; empty for a server that wants none.
            The embedded server gets keys of its own.
        tls: how a server that is reached by `tls://` is known.
        timeout_s: how long a publish may wait for its acknowledgement, retries included.
        max_deliver: deliveries before a message becomes a dead letter.
        max_payload: bytes; larger bodies are refused (the embedded server is started with it).
        max_bytes: bytes each stream may keep on disk.
        ack_wait_s: a message that its consumer went silent about is delivered again after so long; a running handler keeps it.
        replicas: copies of each stream in a cluster of servers.
    """

    url: str = ""
    keys: str = ""
    tls: TlsConfig = TlsConfig()
    timeout_s: Positive = 5.0
    max_deliver: Count = 6
    max_payload: Count = 8 * 1024 * 1024
    max_bytes: Count = 2 * 1024**3
    ack_wait_s: Positive = 30.0
    replicas: Count = 1


class StoreConfig(Section, frozen=True, kw_only=True):
    """Redis.

    Attributes:
        url: of a running server; empty starts the embedded one.
        keys: folder with the password of each service, as `bus.keys`.
        tls: how a server that is reached by `rediss://` is known.
        ttl_s: seconds after which the state of a closed rollout or group expires.
        timeout_s: how long one operation may take, reconnects included.
    """

    url: str = ""
    keys: str = ""
    tls: TlsConfig = TlsConfig()
    ttl_s: Positive = 3600.0
    timeout_s: Positive = 5.0


class EngineConfig(Section, frozen=True, kw_only=True):
    """vLLM.

    Attributes:
        url: of a running server, without `/v1`; empty starts one.
        urls: of several that serve the same model, in place of `url`.
        replicas: how many are started where none is named.
        api: in teacher mode, what the server speaks.
        key_env: in teacher mode, environment variable with its API key; empty for none.
        model: model folder (Hugging Face format) that training starts from.
        served_name: model name that the engine answers to.
        max_model_len: tokens of prompt and completion together.
        dtype: of the served weights.
        tool_parser: vLLM's tool-call parser.
        kv_cache_mb: memory of the KV cache.
        max_num_seqs: sequences decoded at once.
        start_timeout_s: how long it may take to come up.
        args: further arguments of `vllm serve`.
        command: replaces `vllm serve` altogether; `{port}`, `{model}` and `{name}` are filled in.
    """

    url: str = ""
    urls: list[str] = []
    replicas: Count = 1
    api: Literal["openai", "anthropic"] = "openai"
    key_env: str = ""
    model: str = ""
    served_name: str = "policy"
    max_model_len: Count = 4096
    dtype: str = "float32"
    tool_parser: str = "hermes"
    kv_cache_mb: Count = 128
    max_num_seqs: Count = 64
    start_timeout_s: Positive = 180.0
    args: list[str] = []
    command: list[str] = []

    @property
    def addresses(self) -> list[str]:
        """Base URLs of all servers that are known, without a slash at their end."""
        return [url.rstrip("/") for url in self.urls or [self.url] if url]
