"""millrace.stores against servers that others wrote: nginx for HTTP, moto's server for S3."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from millrace import CorruptDataError, stores
from python_code import run_code

pytestmark = pytest.mark.slow

obstore = pytest.importorskip("obstore", reason="obstore is not installed: pip install obstore")

MIB = 1 << 20
SHARDS: dict[str, bytes] = {}
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")


@pytest.fixture(scope="module", autouse=True)
def shards() -> Iterator[None]:
    """Here while these tests run: until then each process that a test forks would get them, too."""
    SHARDS.update({f"shard {i}+%.tar": random.Random(i).randbytes(5 * MIB + i) for i in range(3)})
    yield
    SHARDS.clear()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    pytest.fail(f"the server did not start: {process.args}")


@pytest.fixture(scope="module")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if NGINX is None:
        pytest.skip("nginx is not installed: apt-get install nginx-light")
    folder = tmp_path_factory.mktemp("nginx")
    folder.chmod(0o755)
    (folder / "data").mkdir()
    for name, data in SHARDS.items():
        (folder / "data" / name).write_bytes(data)
    (folder / "data" / "empty").write_bytes(b"")
    (folder / "data" / "secret").write_bytes(b"x")
    port = free_port()
    config = folder / "nginx.conf"
    temporary = "\n".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    config.write_text(f"""
        daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
        events {{ worker_connections 256; }}
        http {{ access_log off; sendfile on; {temporary}
          server {{ listen 127.0.0.1:{port}; root {folder}/data; location /secret {{ deny all; }}
            location /moved/ {{ rewrite ^/moved/(.*)$ /$1 redirect; }} }} }}
    """)
    with subprocess.Popen(
        [NGINX, "-c", str(config), "-p", str(folder)], stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("moto.server", reason="moto's server is not installed: pip install 'moto[server]'")
    port = free_port()
    log = open(tmp_path_factory.mktemp("moto") / "log", "wb")
    command = [
        sys.executable,
        "-c",
        "from moto.server import main; main()",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    with (
        log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in list(os.environ):
            if name.startswith("AWS_"):
                patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        patch.setenv("AWS_REGION", "us-east-1")
        home = tmp_path_factory.mktemp("home")
        (home / "credentials").write_text("[default]\naws_access_key_id = k\naws_secret_access_key = s\n")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(home / "credentials"))
        patch.setenv("AWS_CONFIG_FILE", str(home / "config"))
        try:
            wait_for(port, process)
            urllib.request.urlopen(
                urllib.request.Request(f"http://127.0.0.1:{port}/bucket", data=b"", method="PUT")
            ).read()
            store = obstore.store.S3Store(
                "bucket", client_options={"allow_http": True}, access_key_id="k", secret_access_key="s"
            )
            for name, data in SHARDS.items():
                obstore.put(store, f"folder/{name}", data)
            obstore.put(store, "empty", b"")
            for name in SHARDS:  # which everybody may read
                key = urllib.parse.quote(f"bucket/folder/{name}")
                headers = {"x-amz-acl": "public-read", "Authorization": "by moto unchecked"}
                urllib.request.urlopen(
                    urllib.request.Request(f"http://127.0.0.1:{port}/{key}?acl", b"", headers, method="PUT")
                ).read()
            yield "s3://bucket"
        finally:
            process.terminate()


def check(urls: list[str], **settings: object) -> None:
    with stores.open_shards(urls, request_bytes=2 * MIB, **settings) as shards:
        got = [
            b"".join(s.read_at(at, min(700_000, s.size - at)) for at in range(0, s.size, 700_000))
            for _, s in shards
        ]
        assert got == list(SHARDS.values())
        assert settings or shards.stats()["requests"] == 9 and shards.stats()["retries"] == 0
    source = stores.open_source(urls[1])
    assert source.read_at(3 * MIB, 100) == SHARDS["shard 1+%.tar"][3 * MIB : 3 * MIB + 100]


def test_nginx(nginx: str, tmp_path: Path) -> None:
    urls = [f"{nginx}/{name.replace('%', '%25').replace(' ', '%20')}" for name in SHARDS]
    check(urls)
    check(urls, cache=tmp_path)
    check(urls, cache=tmp_path)
    check([url.replace(nginx, f"{nginx}/moved") for url in urls])
    check([f"{url}?signature=1%2B1" for url in urls])
    assert stores.open_source(f"{nginx}/empty").size == 0
    with pytest.raises(FileNotFoundError, match="no such object"):
        stores.open_source(f"{nginx}/none")
    with pytest.raises(PermissionError, match="refused"):
        stores.open_source(f"{nginx}/secret")


def test_nginx_notices_a_changed_object(nginx: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = next(Path(tmp_path_factory.getbasetemp()).glob("nginx*/data")) / "changing"
    path.write_bytes(bytes(3 * MIB))
    source = stores.open_source(f"{nginx}/changing")
    source.read_at(0, 10)
    path.write_bytes(b"\1" * (3 * MIB))
    os.utime(path, (1, 1))
    with pytest.raises(CorruptDataError, match="changed while it was read"):
        source.read_at(2 * MIB, MIB)


def test_s3(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    urls = [f"{s3}/folder/{name}" for name in SHARDS]
    check(urls)
    check(urls, cache=tmp_path)
    check(urls, cache=tmp_path)
    check(urls, store_options={"skip_signature": True})
    assert stores.open_source(f"{s3}/empty").size == 0
    for url in (f"{s3}/none", "s3://no-such-bucket/none"):
        with pytest.raises(FileNotFoundError, match="no such object"):
            stores.open_source(url)


def test_s3_without_credentials(s3: str) -> None:
    code = f"""
from millrace import CorruptDataError, stores
try:
    stores.open_source("{s3}/folder/x", retries=1, connect_timeout=0.3, stall_timeout=5)
except PermissionError as error:
    print(error)
"""
    nowhere = {"AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9"}
    done = run_code(code, environment=nowhere)
    assert "no credentials were found" in done.stdout and "skip_signature" in done.stdout, (
        done.stdout + done.stderr
    )
