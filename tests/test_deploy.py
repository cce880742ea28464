"""The files under deploy/ name settings, routes and extras that exist, and do what they say as far as shows here."""

import asyncio
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from starlette.requests import Request

from onepass.server.settings import Settings

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
KNOWN = {f"ONEPASS_{item.name.upper()}" for item in fields(Settings)} | {"ONEPASS_MODEL", "ONEPASS_API_KEY"}
INSTRUCTIONS = {"FROM", "ARG", "ENV", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
IMAGES = ("Dockerfile", "Dockerfile.cuda")


@pytest.mark.parametrize("path", [*sorted(DEPLOY.glob("[!_.]*.*")), DEPLOY / "Dockerfile"], ids=lambda path: path.name)
def test_every_setting_that_is_named_exists(path: Path) -> None:
    assert set(re.findall(r"ONEPASS_[A-Z_]+", path.read_text())) <= KNOWN


def instructions(name: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile, with their continued lines joined."""
    text = re.sub(r"\\\n", " ", (DEPLOY / name).read_text())
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


@pytest.mark.parametrize("name", IMAGES)
def test_the_images_install_what_exists_and_do_not_run_as_root(name: str) -> None:
    found = instructions(name)
    words = [word for word, _ in found]
    assert set(words) == INSTRUCTIONS - ({"ARG"} if name == IMAGES[1] else set()) | {"ENTRYPOINT"}
    assert words[0] == "FROM" and ":" in found[0][1] and "latest" not in found[0][1]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = re.findall(r"EXTRAS=([\w,]+)|\.\[([\w,]+)\]", (DEPLOY / name).read_text())
    assert {extra for pair in named for extra in "".join(pair).split(",")} <= set(extras)
    for sources in (rest.split()[:-1] for word, rest in found if word == "COPY"):
        assert all((ROOT / source).exists() for source in sources)
    assert words.index("USER") > max(place for place, word in enumerate(words) if word == "RUN")
    settings = dict(pair.split("=", 1) for word, rest in found if word == "ENV" for pair in rest.split())
    exposed = dict(found)["EXPOSE"]
    assert settings["ONEPASS_PORT"] == exposed and ":$ONEPASS_PORT/readyz" in dict(found)["HEALTHCHECK"]
    assert json.loads(dict(found)["ENTRYPOINT"]) == ["onepass", "serve"]  # no shell between us and SIGTERM
    # A mount keeps the folder it was made of, which is another one after the first change of the model.
    (place, model) = re.findall(r"-v \S+:(/\w+)(?::ro)? -e ONEPASS_MODEL=(\S+)", (DEPLOY / name).read_text())[0]
    assert Path(model).parent == Path(place)


def test_kubernetes_asks_the_right_routes_and_waits_long_enough() -> None:
    deployment, service, budget = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    probes = {name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")}
    assert probes == {"startup": "/readyz", "readiness": "/readyz", "liveness": "/livez"}
    assert {container[f"{name}Probe"]["httpGet"]["port"] for name in probes} == {container["ports"][0]["name"]}
    environment = {item["name"]: item.get("value") for item in container["env"]}
    before = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] > float(environment["ONEPASS_DRAIN_S"]) + before
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == budget["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts.keys() == {volume["name"] for volume in pod["volumes"]}
    assert environment["ONEPASS_MODEL"].startswith(mounts["models"] + "/")
    # Of a service NAME every pod has NAME_PORT=tcp://..., unless it does without.
    assert f"{service['metadata']['name'].upper()}_PORT" not in KNOWN or pod["enableServiceLinks"] is False
    # Who scrapes by annotation sends no key.
    metadata = deployment["spec"]["template"]["metadata"]
    assert "ONEPASS_API_KEY" not in environment or "prometheus.io/scrape" not in metadata.get("annotations", {})
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]


def test_systemd_waits_longer_than_the_server_drains() -> None:
    text = (DEPLOY / "onepass.service").read_text()
    assert int(re.findall(r"TimeoutStopSec=(\d+)", text)[0]) > Settings().drain_s
    assert "KillMode=mixed" in text


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="There is no systemd here to check the unit.")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "onepass.service"
    text = (DEPLOY / "onepass.service").read_text()
    unit.write_text(text.replace("/opt/onepass/bin/onepass", sys.executable).replace("/etc/onepass.env", "/dev/null"))
    found = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert found.returncode == 0 and not found.stderr.strip(), found.stderr


@pytest.fixture
def ray_app(model: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A replica of the Ray application, with the least that Ray does for it: no cluster, batches of one."""

    def deployment(**_: Any) -> Callable[[type], type]:
        def decorate(made: type) -> type:
            made.bind = classmethod(lambda cls, *arguments: (cls, arguments))  # type: ignore[attr-defined]
            return made

        return decorate

    def batch(**_: Any) -> Callable[[Any], Any]:
        def decorate(method: Any) -> Any:
            async def one(self: Any, item: Any) -> Any:
                return (await method(self, [item]))[0]

            return one

        return decorate

    serve, ray = ModuleType("ray.serve"), ModuleType("ray")
    serve.deployment, serve.batch, ray.serve = deployment, batch, serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.serve", serve)
    monkeypatch.setenv("ONEPASS_MODEL", str(model))
    spec = importlib.util.spec_from_file_location("ray_serve", DEPLOY / "ray_serve.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made, arguments = module.app
    return made(*arguments)


def test_the_ray_application_answers_as_the_server_does(ray_app: Any) -> None:
    def ask(body: bytes) -> tuple[int, Any]:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"application/json")]}
        answer = asyncio.run(ray_app(Request(scope, receive)))
        return answer.status_code, json.loads(answer.body)

    status, body = ask(b'{"inputs": ["late goal", ["goal", "late goal"]]}')
    assert status == 200
    assert [set(result["tasks"]) for result in body["results"]] == [{"topic", "tone"}, {"same"}]
    assert body["results"][0]["tasks"]["topic"]["version"] == 1 and body["revision"] == ray_app.served.revision
    status, body = ask(b'{"inputs": "goal", "tasks": ["topc"]}')
    assert status == 422 and "Did you mean 'topic'?" in body["error"]["message"]
    assert ask(b'{"inputs": [1]}')[0] == 422 and ask(b"{")[0] == 400
    hole = '{"text": "goal", "first": "goal", "second": null}'
    status, body = ask(f'{{"inputs": [{hole}], "tasks": ["same"]}}'.encode())
    assert status == 422 and body["error"]["code"] == "cannot_answer"
    status, body = ask(f'{{"inputs": [{hole}, {hole}], "tasks": ["same"]}}'.encode())
    assert status == 200 and [one["error"]["code"] for one in body["results"]] == ["cannot_answer"] * 2
    ray_app.served.model = None  # it cannot answer any more
    with pytest.raises(Exception, match="cannot answer"):
        ray_app.check_health()
