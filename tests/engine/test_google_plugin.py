"""Which executable is Google's plugin, through `.venv/bin/pulumi` and the real engine: the one that answers as it.

Google's own cannot be had here; tests/engine/google_plugin.py answers in its place.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import psutil
import pytest

from infra.engine import ask_plugin_version, command_line, google_plugin, wrapper
from infra.engine.google_plugin import PLACEHOLDER_TOKEN
from infra.standins.gcp import schema
from tests.engine.clone import Clone, said
from tests.engine.google_plugin import starts, write_executable, write_plugin
from tests.engine.project import until
from tests.engine.test_gcp_standin import Project

STACK = "foundation.us-central1"
VERSION = schema.version()
STOOD_IN = "note: Google's own argument checks did not run"
UNASKED = "note: Google was not asked: there are no credentials, so its plugin previews with a placeholder token;"
ASKING = "127.0.0.1:1"  # what is given as the engine's address when only the version is asked


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    return Clone.make(tmp_path_factory.mktemp("plugin") / "clone")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "started"


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def put_on_path(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")


def preview(clone: Clone, stack: str = STACK) -> CompletedProcess[str]:
    done = clone.pulumi("preview", stack, "--non-interactive", "--color", "never")
    assert done.returncode == 0, said(done)
    return done


def test_plugin_that_answers_at_the_sdks_version_is_googles(
    clone: Clone, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, write_plugin(tmp_path / "bin", log, VERSION).parent)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "mine")
    assert "note:" not in preview(clone).stderr
    first, *others = [start["engine"] for start in starts(log)]
    assert first == ASKING
    assert others, "the engine has started it as well"
    assert ASKING not in others
    assert {start["GOOGLE_OAUTH_ACCESS_TOKEN"] for start in starts(log)} == {"mine"}


def test_a_plugin_is_asked_once_and_again_when_it_is_another_file(tmp_path: Path, log: Path) -> None:
    plugin = write_plugin(tmp_path / "bin", log, VERSION)
    environment = {"PATH": str(plugin.parent), "PULUMI_HOME": str(tmp_path)}
    asked: list[int] = []
    for _ in range(2):
        assert google_plugin.choose(environment, VERSION) == google_plugin.Choice(plugin)
        asked.append(len(starts(log)))
    plugin.write_text(plugin.read_text() + "\n")
    assert google_plugin.choose(environment, VERSION) == google_plugin.Choice(plugin)
    assert [*asked, len(starts(log))] == [1, 1, 2]


def test_what_is_made_at_an_endpoint_of_the_shell_is_refused_and_one_of_the_stack_file_is_kept(
    tmp_path: Path, log: Path
) -> None:
    """A `destroy` with other variables would report success, and what was made would run on."""
    plugin = write_plugin(tmp_path / "bin", log, VERSION)
    environment = {"PATH": str(plugin.parent), "PULUMI_HOME": str(tmp_path), "HOME": str(tmp_path)}
    started = wrapper.Start(Path("/e/pulumi"), dict(environment))
    environment["GOOGLE_CLOUD_RUN_V2_CUSTOM_ENDPOINT"] = "http://127.0.0.1:3/v2/"
    begun, stack = wrapper.Start(Path("/e/pulumi"), environment), "config:\n  slipway:target: foundation\n"
    for verb in ("up", "destroy", "refresh", "import"):
        with pytest.raises(wrapper.RefusalError, match="run `unset GOOGLE_CLOUD_RUN_V2_CUSTOM_ENDPOINT`") as refused:
            wrapper.with_googles(command_line.parse([verb]), begun, stack)
        assert "write `gcp:cloudRunV2CustomEndpoint: http://127.0.0.1:3/v2/` into the stack file" in str(refused.value)
    assert wrapper.with_googles(command_line.parse(["preview"]), begun, stack)
    program = 'pulumi.CustomResource("gcp:storage/bucket:Bucket", "b", {"location": "US"})'
    project = Project.make(tmp_path / "project", program)
    project.settings()
    config = project.directory / "Pulumi.t.yaml"
    whole = config.read_text()
    config.write_text(whole.replace("{", "{'gcp:storageCustomEndpoint': 'http://127.0.0.1:4/', ", 1))
    project.run("up", "--yes", "--skip-preview")
    config.write_text(whole)
    project.run("refresh", "--yes", "--skip-preview")
    states = list(project.directory.rglob("stacks/*/t.json"))
    for verb in ("up", "preview"):
        with pytest.raises(wrapper.RefusalError, match="again, or first run `pulumi destroy`") as refused:
            wrapper.with_googles(command_line.parse([verb]), started, stack, states)
        assert "made at http://127.0.0.1:4/ (gcp:storageCustomEndpoint), but the stack file says Google" in str(
            refused.value
        )
    there = f"{stack}  gcp:storageCustomEndpoint: http://127.0.0.1:4/\n"
    assert wrapper.with_googles(command_line.parse(["up"]), started, there, states)
    assert wrapper.with_googles(command_line.parse(["destroy"]), started, stack, states)
    with pytest.raises(wrapper.RefusalError, match="the state of this stack is not in this clone"):
        wrapper.with_googles(command_line.parse(["up"]), started, there, None)
    state = json.loads(project.run("stack", "export"))["deployment"]["resources"]
    (provider,) = [each["inputs"] for each in state if each["type"] == "pulumi:providers:gcp"]
    assert provider["storageCustomEndpoint"] == "http://127.0.0.1:4/", "refresh and destroy ask there"


@pytest.mark.parametrize(
    ("command", "answer"),
    [("echo hello", "it printed 'hello' instead of a port"), ("exit 3", "it printed no port and ended")],
)
def test_what_is_no_plugin_is_said_by_what_it_did(tmp_path: Path, command: str, answer: str) -> None:
    plugin = write_executable(tmp_path / "bin", command)
    choice = google_plugin.choose({"PATH": str(plugin.parent), "PULUMI_HOME": str(tmp_path)}, VERSION)
    assert choice.official is None
    assert choice.passed_over == (f"{plugin} is not Google's plugin {VERSION}: {answer}; it is passed over",)


def test_what_is_not_the_plugin_is_passed_over_by_name_and_the_stand_in_previews(
    clone: Clone, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = write_plugin(tmp_path / "bin", log, "9.35.0")
    put_on_path(monkeypatch, plugin.parent)
    done = preview(clone)
    notes = done.stderr.splitlines()
    says = "it answers as version 9.35.0"
    assert notes[0] == f"note: {plugin} is not Google's plugin {VERSION}: {says}; it is passed over"
    assert notes[1].startswith(STOOD_IN)
    assert f"using pulumi-resource-gcp from $PATH at {clone.directory}/infra/standins/" in said(done)
    assert len(starts(log)) == 1, "asked, and never given to the engine"


def test_installed_plugin_wins_over_something_else_on_path(
    clone: Clone, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rubbish = write_executable(tmp_path / "bin", "echo hello")
    put_on_path(monkeypatch, rubbish.parent)
    home = Path(clone.environment["PULUMI_HOME"])
    installed = write_plugin(home / "plugins" / f"resource-gcp-v{VERSION}", log, VERSION)
    try:
        done = preview(clone)
    finally:
        shutil.rmtree(installed.parent)  # where it stands empty, the engine takes the plugin to be installed
    assert f"note: {rubbish} is not Google's plugin" in done.stderr
    assert STOOD_IN not in done.stderr
    assert [start["engine"] for start in starts(log)] != [ASKING], "the engine has started it"


def test_preview_without_credentials_asks_nobody_and_says_so_first(
    clone: Clone, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, write_plugin(tmp_path / "bin", log, VERSION).parent)
    monkeypatch.setenv("no_proxy", "corp.example")
    done = preview(clone)
    assert done.stderr.startswith(UNASKED)
    asking, *started = starts(log)
    assert asking["GOOGLE_OAUTH_ACCESS_TOKEN"] is None
    assert started
    for start in started:
        assert start["GOOGLE_OAUTH_ACCESS_TOKEN"] == PLACEHOLDER_TOKEN
        assert start["HTTPS_PROXY"] == start["https_proxy"] == "http://127.0.0.1:9"
        assert start["NO_PROXY"] == start["no_proxy"] == "localhost,127.0.0.1,::1"

    log.unlink()
    up = clone.pulumi("up", STACK, "--non-interactive", "--color", "never")
    assert up.returncode != 0, "the shipped project is a placeholder"
    assert UNASKED not in up.stderr
    assert {(start["HTTPS_PROXY"], start["GOOGLE_OAUTH_ACCESS_TOKEN"]) for start in starts(log)} <= {(None, None)}


def test_stack_of_tpus_never_asks_for_the_plugin(
    clone: Clone, tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_on_path(monkeypatch, write_plugin(tmp_path / "bin", log, VERSION).parent)
    assert "note:" not in preview(clone, "v6e-32").stderr
    assert starts(log) == []


def test_the_plugin_is_found_where_the_engine_installs_it(tmp_path: Path, log: Path, clone: Clone) -> None:
    """By the command that messages name, except that the release is served from here."""
    (tmp_path / "site").mkdir()
    system, machine = platform.system().lower(), {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    with tarfile.open(
        tmp_path / "site" / f"pulumi-resource-gcp-v{VERSION}-{system}-{machine}.tar.gz", "w:gz"
    ) as release:
        release.add(write_plugin(tmp_path / "built", log, VERSION), google_plugin.EXECUTABLE)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        server = f"http://127.0.0.1:{site.server_address[1]}"
        done = clone.run("pulumi", "plugin", "install", "resource", "gcp", VERSION, "--server", server)
        site.shutdown()
    assert done.returncode == 0, said(done)
    chosen = google_plugin.choose(clone.environment, VERSION)
    shutil.rmtree(clone.directory / ".slipway" / "pulumi-home" / "plugins")
    assert chosen.official and not chosen.passed_over


def test_an_executable_that_never_answers_is_ended_with_what_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    silent = write_executable(tmp_path / "bin", f"sleep 1000 & echo $! $$ >{pids}; wait")
    answer = ask_plugin_version.ask(str(silent), 5.0)  # by when it has started, whatever else runs
    assert answer == {"version": "", "sentence": "it printed no port in time", "certain": False}
    until(lambda: not any(map(runs, pids.read_text().split())), "both have ended")


def runs(pid: str) -> bool:
    try:
        return psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_port_that_nobody_answers_at_is_no_plugin(tmp_path: Path) -> None:
    talker = write_executable(tmp_path / "bin", "echo 1; exec sleep 1000")
    answer = ask_plugin_version.ask(str(talker), 1.0)
    assert (answer["version"], answer["certain"]) == ("", False)
