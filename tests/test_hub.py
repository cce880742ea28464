"""Encoders and models on the Hugging Face hub: its own client, against a hub on this machine.

Of the hub's protocol the tests' hub knows what loading and uploading need.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants

import onepass
from onepass.encoder.loading import fingerprint, load_encoder
from onepass.errors import EncoderError, FolderError

API = re.compile(r"/api/models/(?P<repo>[^/]+(?:/[^/]+)?)/(?P<what>revision|tree|preupload|commit)/(?P<revision>[^/]+)")
FILE = re.compile(r"/(?P<repo>[^/]+(?:/[^/]+)?)/resolve/(?P<revision>[^/]+)/(?P<path>.+)")
Files = dict[str, bytes]


class Hub(ThreadingHTTPServer):
    """Repositories by name and revision; `main` is what was committed last."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.repositories: dict[str, dict[str, Files]] = {}
        self.fetched: list[str] = []
        """The files that were asked for, in order"""
        self.token = "secret"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def files(self, repository: str, revision: str) -> Files | None:
        """The files of a revision, which is a name or what `sha` makes of its files."""
        known = self.repositories.get(repository, {})
        return known.get(revision) or next((files for files in known.values() if sha(files) == revision), None)


def sha(files: Files) -> str:
    return hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> Hub:
        return cast(Hub, self.server)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def say(self, status: int, value: Any, **headers: str) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        for name, text in headers.items():
            self.send_header(name.replace("_", "-"), text)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if not (asked := API.fullmatch(path) or FILE.fullmatch(path)):
            return self.say(404, {"error": f"no such address: {path}"})
        if asked["repo"] not in self.hub.repositories:
            return self.say(404, {"error": "Repository not found"}, X_Error_Code="RepoNotFound")
        if (files := self.hub.files(asked["repo"], asked["revision"])) is None:
            return self.say(404, {"error": "Invalid rev id"}, X_Error_Code="RevisionNotFound")
        if asked.re is FILE:
            content, etag = files[asked["path"]], hashlib.sha1(files[asked["path"]], usedforsecurity=False).hexdigest()
            if self.command == "GET":
                self.hub.fetched.append(asked["path"])
            return self.say(200, content, ETag=f'"{etag}"', X_Repo_Commit=sha(files))
        listed = [
            {"type": "file", "path": name, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for name, content in files.items()
        ]
        if asked["what"] == "tree":
            return self.say(200, listed)
        siblings = [{"rfilename": name} for name in files]
        return self.say(200, {"id": asked["repo"], "sha": sha(files), "siblings": siblings, "tags": []})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != f"Bearer {self.hub.token}":
            return self.say(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}" if asked.get("organization") else asked["name"]
            attributes = {".gitattributes": b"*.safetensors filter=lfs\n"}  # the hub's own, in every repository
            self.hub.repositories.setdefault(name, {"main": attributes})
            return self.say(200, {"url": f"{self.hub.address}/{name}", "name": name, "id": name})
        if path == "/api/validate-yaml":
            return self.say(200, {"errors": [], "warnings": []})
        found = API.fullmatch(path)
        if found and found["what"] == "preupload":
            names = [file["path"] for file in json.loads(body)["files"]]
            return self.say(
                200, {"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]}
            )
        if found and found["what"] == "commit":
            files = dict(self.hub.repositories[found["repo"]]["main"])
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    files[line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.hub.repositories[found["repo"]]["main"] = files
            return self.say(
                200, {"commitUrl": f"{self.hub.address}/{found['repo']}/commit/{sha(files)}", "commitOid": sha(files)}
            )
        return self.say(404, {"error": f"no such address: {path}"})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that the hub's client asks, with a cache of its own."""
    with Hub() as found:
        template = found.address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "ENDPOINT", found.address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setenv("HF_TOKEN", found.token)
        thread = threading.Thread(target=found.serve_forever, args=(0.01,))
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def contents(folder: Path) -> Files:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def scores(model: onepass.Model) -> list[float]:
    return [answer.score for answer in model.predict("late goal").values()]


def test_an_encoder_is_fetched_at_its_revision_without_files_that_could_run_code(hub: Hub, encoder: Path):
    files = contents(encoder)
    unsafe = {"pytorch_model.bin": b"a pickle", "modeling.py": b"raise SystemExit", "README.md": b"# Tiny"}
    hub.repositories["someone/tiny"] = {"main": {"config.json": b"{}"}, "v1": files | unsafe}
    found, _ = load_encoder("someone/tiny@v1")
    assert fingerprint(found) == fingerprint(load_encoder(encoder)[0])
    assert sorted(hub.fetched) == sorted(files)
    hub.repositories.clear()  # it is in the cache now, which is all that is left
    assert fingerprint(load_encoder("someone/tiny@v1")[0]) == fingerprint(found)


def test_an_encoder_without_an_owner_is_fetched_too(hub: Hub, encoder: Path):
    hub.repositories["tiny-uncased"] = {"main": contents(encoder)}
    assert fingerprint(load_encoder("tiny-uncased")[0]) == fingerprint(load_encoder(encoder)[0])


@pytest.mark.parametrize(
    ("name", "told"),
    [("someone/other", "there is none of this name, or it is private"), ("someone/tiny@v2", "it has no such revision")],
)
def test_what_the_hub_does_not_have_is_told(hub: Hub, encoder: Path, name: str, told: str):
    hub.repositories["someone/tiny"] = {"main": contents(encoder)}
    with pytest.raises(EncoderError, match=rf"no folder '{name}' here.*hub: {told}.*give a folder"):
        load_encoder(name)
    with pytest.raises(FolderError, match=rf"no model folder {name}.*one: {told}.*that onepass train wrote"):
        onepass.load(name)


def test_a_model_is_uploaded_and_loaded_from_there(hub: Hub, model: Path):
    mine = onepass.load(model)
    assert mine.push_to_hub("me/news") == f"{hub.address}/me/news"
    uploaded = hub.repositories["me/news"]["main"]
    assert uploaded.keys() - {".gitattributes"} == contents(model).keys()
    assert scores(onepass.load("me/news")) == scores(mine)


def test_a_model_is_loaded_at_its_revision(hub: Hub, model: Path):
    hub.repositories["me/news"] = {"main": {"config.json": b"{}"}, "v1": contents(model)}
    assert scores(onepass.load("me/news@v1")) == scores(onepass.load(model))


def test_a_model_whose_card_was_edited_on_the_hub_is_loaded(hub: Hub, model: Path):
    onepass.load(model).push_to_hub("me/news")
    hub.repositories["me/news"]["main"]["README.md"] += b"\nWrite to us before you use it.\n"
    assert scores(onepass.load("me/news")) == scores(onepass.load(model))


def test_a_hub_that_is_away_is_told(hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(FolderError, match=r"could not be uploaded to 'me/news'.*refused.*the network"):
        onepass.load(model).push_to_hub("me/news")


def test_an_upload_that_is_refused_says_what_to_check(hub: Hub, model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "wrong")
    with pytest.raises(FolderError, match=r"(?s)could not be uploaded to 'me/news'.*401.*hf auth login"):
        onepass.load(model).push_to_hub("me/news")
