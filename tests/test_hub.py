"""Local directories, the hub's cache without a network, and a hub of our own.

The server speaks as much of the hub's protocol as `hf_hub_download` asks for:
HEAD and GET of `/{repository}/resolve/{revision}/{file}`.
"""

import http.server
import os
import pathlib
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from kbert.hub import find_file

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {"config.json": b"{}", "1_Pooling/config.json": b'{"a": 1}'}


def make_cache(home: pathlib.Path) -> pathlib.Path:
    """Lays out the hub's cache, as huggingface_hub documents it."""
    root = home / "hub" / "models--org--name"
    for name, content in FILES.items():
        path = root / "snapshots" / COMMIT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(COMMIT)
    return root / "snapshots" / COMMIT


# A local directory.


def test_directory_file(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]")
    path = tmp_path / "vocab.txt"
    assert find_file(tmp_path, "vocab.txt") == path
    assert find_file(str(tmp_path), "vocab.txt") == path
    assert find_file(f"{tmp_path}/", "vocab.txt", revision="v1") == path


def test_nested_file(tmp_path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    path = find_file(tmp_path, "1_Pooling/config.json")
    assert path == tmp_path / "1_Pooling" / "config.json"


def test_absent_file(tmp_path):
    (tmp_path / "model.safetensors").write_text("")
    assert find_file(tmp_path, "vocab.txt", required=False) is None
    with pytest.raises(FileNotFoundError) as error:
        find_file(tmp_path, "vocab.txt")
    assert "vocab.txt" in str(error.value)
    assert "holds: model.safetensors." in str(error.value)
    assert str(error.value).endswith(f"Received: source={tmp_path!r}")


def test_absent_file_in_an_empty_or_a_full_directory(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds: nothing"):
        find_file(tmp_path, "a")
    for number in range(30):
        (tmp_path / f"{number:02}").write_text("")
    with pytest.raises(FileNotFoundError, match=r"18, 19, …\. Received"):
        find_file(tmp_path, "a")


def test_a_directory_is_not_a_file(tmp_path):
    (tmp_path / "vocab.txt").mkdir()
    assert find_file(tmp_path, "vocab.txt", required=False) is None


@pytest.mark.parametrize(
    "filename",
    ["", "/etc/passwd", "../up", "a/../../up", "..", "a\\..\\b", "C:x", None],
)
def test_filename_stays_inside(tmp_path, filename):
    with pytest.raises(ValueError, match="Received: filename="):
        find_file(tmp_path, filename)


def test_directory_wins_over_the_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "org" / "name").mkdir(parents=True)
    (tmp_path / "org" / "name" / "a.txt").write_text("")
    path = find_file("org/name", "a.txt")
    assert path == pathlib.Path("org/name/a.txt")


# What is neither a directory nor a hub id.


@pytest.fixture
def no_network(monkeypatch):
    import huggingface_hub

    def download(*args, **kwargs):
        raise AssertionError("asked the hub")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)


@pytest.mark.parametrize(
    "source",
    [
        "", ".hidden", "./missing", "../missing", "/no/such", "~/model",
        "a/b/c", "a//b", "/a", "a/", "org/na me", "org/-name", "org/name-",
        "org/name.git", "or--g/name", "a..b", "naïve/model", "x" * 97,
        "C:\\model", "org\\name", "org/name\n", "https://huggingface.co/a/b",
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_network")
def test_no_source(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as error:
        find_file(source, "config.json", required=False)
    assert str(error.value).endswith(f"Received: source={source!r}")


@pytest.mark.usefixtures("no_network")
def test_a_path_is_no_hub_id(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        find_file(pathlib.Path("org/name"), "config.json")


@pytest.mark.usefixtures("no_network")
def test_a_plain_file_is_no_source(tmp_path):
    path = tmp_path / "model.ckpt"
    path.write_text("")
    with pytest.raises(FileNotFoundError, match="is a file. Received: source="):
        find_file(path, "config.json")


@pytest.mark.parametrize("source", [None, 3, b"org/name", ["org/name"]])
@pytest.mark.usefixtures("no_network")
def test_source_of_another_type(source):
    with pytest.raises(TypeError, match="Received: source="):
        find_file(source, "config.json")


@pytest.mark.parametrize(
    "source",
    [
        "bert-base-uncased",
        "google-bert/bert_base.v1",
        "a/b",
        "_a/b_",
        "a-b/c-d",
    ],
)
def test_hub_ids(source, monkeypatch):
    import huggingface_hub

    asked = []

    def download(*args, **kwargs):
        asked.append((args, kwargs))
        return "/cache/config.json"

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    path = find_file(source, "config.json", revision="v1")
    assert path == pathlib.Path("/cache/config.json")
    assert asked == [((source, "config.json"), {"revision": "v1"})]


# The hub's cache without a network.


@pytest.fixture
def offline(tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return make_cache(tmp_path)


def test_offline_cached(offline):
    for name, content in FILES.items():
        path = find_file("org/name", name)
        assert path == offline / name
        assert path.read_bytes() == content
    assert find_file("org/name", "config.json", revision=COMMIT) is not None


def test_offline_absent_from_a_cached_copy(offline):
    assert find_file("org/name", "vocab.txt", required=False) is None
    with pytest.raises(OSError, match="cannot be asked for vocab.txt") as error:
        find_file("org/name", "vocab.txt")
    assert error.value.__cause__ is not None
    message = str(error.value)
    assert "HF_HUB_OFFLINE" in message
    assert message.endswith("Received: source='org/name', revision=None")


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("source", "revision"), [("org/other", None), ("org/name", "v2")]
)
def test_offline_not_cached(offline, source, revision, required):
    # Nothing is known of it, so an optional file cannot be called absent.
    with pytest.raises(OSError, match="Received: source='org/"):
        find_file(source, "vocab.txt", revision=revision, required=required)


def test_environment_variables(tmp_path):
    """In a process of its own, as the hub's library reads them on import."""
    make_cache(tmp_path)
    hub = pathlib.Path(sys.modules["kbert.hub"].__file__)
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('hub', {str(hub)!r})\n"
        "hub = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(hub)\n"
        "assert 'huggingface_hub' not in sys.modules\n"
        "print(hub.find_file('org/name', 'config.json'))\n"
    )
    environment = {
        **os.environ,
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "1",
    }
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    path = tmp_path / "hub/models--org--name/snapshots" / COMMIT / "config.json"
    assert done.stdout.strip() == str(path)


# A hub of our own.


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the hub does for the few repositories of the tests."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        self.server.requests.append(f"{self.command} {self.path}")
        repository, _, rest = self.path.lstrip("/").partition("/resolve/")
        revision, _, name = rest.partition("/")
        status, code = 200, None
        if repository == "org/gated":
            status, code = 403, "GatedRepo"
        elif repository == "org/broken":
            status = 418
        elif repository != "org/name":
            status, code = 401, "RepoNotFound"
        elif revision not in ("main", COMMIT):
            status, code = 404, "RevisionNotFound"
        elif name not in FILES:
            status, code = 404, "EntryNotFound"
        body = FILES[name] if status == 200 else b""
        self.send_response(status)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("Content-Length", str(len(body)))
        if code:
            self.send_header("X-Error-Code", code)
        if status == 200:
            self.send_header("ETag", f'"{hash(body) % 10**9:040x}"')
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def log_message(self, format, *args):
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server on this machine in the hub's place, and an empty cache."""
    from huggingface_hub import constants

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.requests = []
    thread = threading.Thread(
        target=server.serve_forever, args=(0.02,), daemon=True
    )
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    template = endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    yield SimpleNamespace(requests=server.requests, cache=tmp_path / "cache")
    server.shutdown()
    server.server_close()
    thread.join()


def test_download_then_cache(hub, monkeypatch):
    from huggingface_hub import constants

    for name, content in FILES.items():
        path = find_file("org/name", name)
        assert path.read_bytes() == content
        assert hub.cache in path.parents
    assert any(request.startswith("GET") for request in hub.requests)

    hub.requests.clear()
    again = find_file("org/name", "config.json")
    assert again.read_bytes() == FILES["config.json"]
    assert not any(request.startswith("GET") for request in hub.requests)

    hub.requests.clear()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert find_file("org/name", "config.json") == again
    assert hub.requests == []


def test_commit_in_the_cache_asks_nobody(hub):
    path = find_file("org/name", "config.json", revision=COMMIT)
    hub.requests.clear()
    assert find_file("org/name", "config.json", revision=COMMIT) == path
    assert hub.requests == []


def test_file_not_on_the_hub(hub):
    assert find_file("org/name", "vocab.txt", required=False) is None
    with pytest.raises(
        FileNotFoundError, match="has no file vocab.txt"
    ) as error:
        find_file("org/name", "vocab.txt")
    assert error.value.__cause__ is not None
    assert "Received: source='org/name'" in str(error.value)


@pytest.mark.parametrize("required", [True, False])
@pytest.mark.parametrize(
    ("source", "revision", "message"),
    [
        ("org/unknown", None, "was not found.*hf auth login"),
        ("unknown", None, "was not found.*check the spelling"),
        ("org/gated", None, "is gated: ask for access"),
        ("org/name", "v9", "has no revision 'v9'"),
        ("org/broken", None, "cannot be asked|could not be read"),
    ],
)
def test_hub_refuses(hub, source, revision, message, required):
    with pytest.raises(OSError, match=message) as error:
        find_file(source, "config.json", revision=revision, required=required)
    assert not isinstance(error.value, FileNotFoundError)
    assert error.value.__cause__ is not None
    received = f"Received: source={source!r}, revision={revision!r}"
    assert str(error.value).endswith(received)


def test_no_connection(hub, monkeypatch):
    from huggingface_hub import constants

    cached = find_file("org/name", "config.json")
    nobody = "http://127.0.0.1:9"
    template = nobody + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "ENDPOINT", nobody)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    # The library waits 1, 2, 4, … seconds between its tries.
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    assert find_file("org/name", "config.json") == cached
    with pytest.raises(OSError, match="check the connection") as error:
        find_file("org/name", "vocab.txt")
    assert error.value.__cause__ is not None
