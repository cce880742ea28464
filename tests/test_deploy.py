"""The files under deploy/ name settings, routes and extras that exist."""

import ast
import re
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from onepass.server.settings import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KNOWN = {f"ONEPASS_{item.name.upper()}" for item in fields(Settings)} | {"ONEPASS_MODEL", "ONEPASS_API_KEY"}


@pytest.mark.parametrize("path", sorted(DEPLOY.iterdir()), ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    assert set(re.findall(r"ONEPASS_[A-Z_]+", path.read_text())) <= KNOWN


def test_the_images_install_extras_that_exist_and_do_not_run_as_root() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in ("Dockerfile", "Dockerfile.cuda"):
        text = (DEPLOY / name).read_text()
        named = re.findall(r"EXTRAS=([\w,]+)|\.\[([\w,]+)\]", text)
        assert {extra for pair in named for extra in "".join(pair).split(",")} <= set(extras)
        assert re.search(r"^USER onepass$", text, re.MULTILINE) and "/readyz" in text
        for source in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
            assert all((ROOT / file).exists() for file in source.split())


def test_kubernetes_asks_the_right_routes_and_waits_long_enough() -> None:
    deployment, service, budget = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert probes == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/livez"}
    environment = {item["name"]: item.get("value") for item in container["env"]}
    before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > float(environment["ONEPASS_DRAIN_S"]) + before
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == budget["spec"]["selector"]["matchLabels"] == labels


def test_systemd_waits_longer_than_the_server_drains() -> None:
    text = (DEPLOY / "onepass.service").read_text()
    assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > Settings().drain_s
    assert "KillMode=mixed" in text


def test_the_ray_application_is_python() -> None:
    ast.parse((DEPLOY / "ray_serve.py").read_text())
