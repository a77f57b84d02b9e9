"""What infra.engine decides: the command line, the backend, the engine's environment, whose lock it is."""

from __future__ import annotations

import json
import os
import pwd
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from infra import emulated
from infra.engine import command_line, google_plugin, home, locks, wrapper
from infra.engine.proxy import without_proxy_on_loopback

HOST = os.uname().nodename
LOCK = Path("/state/.pulumi/locks/organization/slipway/v6e-32/3f.json")


def lock_text(pid: int, host: str = HOST, since: datetime | None = None) -> str:
    moment = (since or datetime.now(UTC)).isoformat()
    return json.dumps({"pid": pid, "username": "ada", "hostname": host, "timestamp": moment})


# --- the command line ---


@pytest.mark.parametrize(
    ("line", "words", "stack"),
    [
        ("up --stack v6e-32 --yes", ("up",), "v6e-32"),
        ("up --stack=v6e-32", ("up",), "v6e-32"),
        ("preview -s v6e-32", ("preview",), "v6e-32"),
        ("preview -sv6e-32", ("preview",), "v6e-32"),
        ("preview -s=v6e-32", ("preview",), "v6e-32"),
        ("up -yfs v6e-32", ("up",), "v6e-32"),
        ("up -rQs v6e-32", ("up",), "v6e-32"),
        ("--stack v6e-32 destroy", ("destroy",), "v6e-32"),
        ("-C infra up --stack v6e-32", ("up",), "v6e-32"),
        ("--color never stack output --stack v6e-32", ("stack", "output"), "v6e-32"),
        ("up -m --stack --stack v6e-32", ("up",), "v6e-32"),
        ("up --message=--stack", ("up",), None),
        ("config set slipway:steps 5 -s v6e-32", ("config", "set", "slipway:steps", "5"), "v6e-32"),
        ("cancel v6e-32 --yes", ("cancel", "v6e-32"), "v6e-32"),
        ("stack select v6e-32", ("stack", "select", "v6e-32"), "v6e-32"),
        ("up", ("up",), None),
        ("up --stack", ("up",), None),
        ("version -- --stack v6e-32", ("version",), None),
        ("", (), None),
    ],
)
def test_command_line_names_its_words_and_its_stack(line: str, words: tuple[str, ...], stack: str | None) -> None:
    command = command_line.parse(line.split())
    assert (command.words, command.stack) == (words, stack)


@pytest.mark.parametrize(
    ("line", "needs_stack", "mutates"),
    [
        ("up -s a", True, True),
        ("dn -s a", True, True),
        ("preview -s a", True, False),
        ("stack output -s a", True, False),
        ("stack --stack a", True, False),
        ("cancel -s a", True, False),
        ("stack init a", False, False),
        ("stack ls", False, False),
        ("stack rm a", False, True),
        ("up --help", False, False),
        ("up --message --help -s a", True, True),
        ("version", False, False),
        ("login s3://bucket", False, False),
        ("", False, False),
    ],
)
def test_commands_that_need_a_stack_and_those_that_change_one(line: str, needs_stack: bool, mutates: bool) -> None:
    command = command_line.parse(line.split())
    assert (command.needs_stack, command.mutates) == (needs_stack, mutates)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("v6e-32", "v6e-32"),
        ("organization/slipway/v6e-32", "v6e-32"),
        ("organization/other/v6e-32", None),
        ("../../etc", None),
        ("a b", None),
    ],
)
def test_stack_reference_of_another_project_or_a_path_is_left_to_the_engine(given: str, name: str | None) -> None:
    assert command_line.local_name(given, "slipway") == name


def test_missing_stack_names_the_nearest_and_where_to_add_one() -> None:
    assert wrapper.missing_stack("v6e-33", ["v6e-32", "v6e-256", "local", "gke-a3-mega-2"]) == (
        "no stack 'v6e-33': there is no stacks/Pulumi.v6e-33.yaml; nearest: v6e-32, v6e-256."
        " Name one of those, or add the file (README.md, Stacks)."
    )


# --- the backend and the environment ---


@pytest.mark.parametrize(
    ("environment", "credentials", "project", "chosen"),
    [
        ({}, "", "name: slipway\n", False),
        ({}, '{"current": ""}', "name: slipway\n", False),
        ({}, '{"current": "gs://states"}', "name: slipway\n", True),
        ({}, "not json", "name: slipway\n", True),
        ({}, "", "name: slipway\nbackend:\n  url: gs://states\n", True),
        ({}, "", "name: slipway\ndescription: no backend: here\n", False),
        ({"PULUMI_BACKEND_URL": "gs://states"}, "", "", True),
        ({"PULUMI_BACKEND_URL": ""}, "", "", False),
    ],
)
def test_backend_that_the_user_chose_is_respected(
    environment: dict[str, str], credentials: str, project: str, chosen: bool, tmp_path: Path
) -> None:
    for name, text in (("credentials.json", credentials), ("Pulumi.yaml", project)):
        if text:
            (tmp_path / name).write_text(text)
    environment = environment | {"PULUMI_CREDENTIALS_PATH": str(tmp_path)}
    assert wrapper.user_chose_backend(environment, tmp_path) is chosen


def test_state_url_of_a_clone_whose_path_has_odd_characters_is_encoded() -> None:
    assert wrapper.state_url(Path("/my work/#1")) == "file:///my%20work/%231/.slipway/state"


def test_engine_finds_the_projects_python_first_and_then_itself() -> None:
    environment = wrapper.engine_environment({"PATH": "/usr/bin:/e:/c/.venv/bin"}, Path("/c"), Path("/e"), "file:///s")
    assert environment == {
        "PATH": "/c/.venv/bin:/e:/usr/bin",
        "VIRTUAL_ENV": "/c/.venv",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PYDANTIC_DISABLE_PLUGINS": "true",
        "GOGC": "800",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_BACKEND_URL": "file:///s",
    }


def test_passphrase_that_the_user_set_stays() -> None:
    by_file = wrapper.engine_environment({"PULUMI_CONFIG_PASSPHRASE_FILE": "/f"}, Path("/c"), Path("/e"), None)
    assert "PULUMI_CONFIG_PASSPHRASE" not in by_file
    assert "PULUMI_BACKEND_URL" not in by_file
    by_value = wrapper.engine_environment({"PULUMI_CONFIG_PASSPHRASE": "secret"}, Path("/c"), Path("/e"), None)
    assert by_value["PULUMI_CONFIG_PASSPHRASE"] == "secret"


# --- what takes the place of Google ---

NOTICE = "note: Google's own argument checks did not run: its plugin is not installed, so a stand-in previews, and"
EMULATED = {
    "SLIPWAY_TPU_ENDPOINT": "http://127.0.0.1:1",
    "STORAGE_EMULATOR_HOST": "http://127.0.0.1:2",
    "SLIPWAY_STANDIN_STATE": "/cloud",
    "GOOGLE_COMPUTE_CUSTOM_ENDPOINT": "http://127.0.0.1:3/v1/",
    "GOOGLE_TPU_V2_CUSTOM_ENDPOINT": "https://tpu-mine.p.googleapis.com/v2/",
}
OF_TPU = ("SLIPWAY_TPU_ENDPOINT", "STORAGE_EMULATOR_HOST")
OF_FOUNDATION = ("STORAGE_EMULATOR_HOST", "SLIPWAY_STANDIN_STATE", "GOOGLE_COMPUTE_CUSTOM_ENDPOINT")
ALL = ("SLIPWAY_TPU_ENDPOINT", *OF_FOUNDATION)


def start(line: str, target: str, tmp_path: Path, **environment: str) -> wrapper.Start:
    """With no plugin, no account and a stack of this target; "" is a stack that cannot be told."""
    variables = {"PATH": "/usr/bin", "HOME": str(tmp_path), "PULUMI_HOME": str(tmp_path), "NO_GCE_CHECK": "true"}
    stack = f"config:\n  slipway:target: {target}  # where\n" if target else ""
    ready = wrapper.Start(Path("/e/pulumi"), variables | environment)
    return wrapper.with_googles(command_line.parse(line.split()), ready, stack)


def variables_told(notices: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(line.split()[1] for line in notices if "not Google; to reach Google: unset " in line)


@pytest.mark.parametrize("verb", ["preview", "up", "refresh", "destroy", "import", "stack output", "stack", "config"])
def test_what_is_emulated_is_said_by_every_command_that_touches_a_stack(verb: str, tmp_path: Path) -> None:
    for target, expected in (("tpu-vm", OF_TPU), ("foundation", OF_FOUNDATION), ("local", ()), ("", ALL)):
        notices = start(verb, target, tmp_path, **EMULATED).notices
        assert variables_told(notices) == expected, (verb, target)
    assert start(verb, "tpu-vm", tmp_path).notices == ()


def test_what_is_emulated_is_one_plain_line_each(tmp_path: Path) -> None:
    assert start("destroy", "tpu-vm", tmp_path, **EMULATED).notices == (
        "note: SLIPWAY_TPU_ENDPOINT is http://127.0.0.1:1: the Cloud TPU API is that server, not Google;"
        " to reach Google: unset SLIPWAY_TPU_ENDPOINT",
        "note: STORAGE_EMULATOR_HOST is http://127.0.0.1:2: Cloud Storage is that server, not Google;"
        " to reach Google: unset STORAGE_EMULATOR_HOST",
    )


@pytest.mark.parametrize(
    ("endpoint", "googles"),
    [
        ("https://www.googleapis.com/compute/v1/", True),
        ("https://compute-mine.p.googleapis.com:443/", True),
        ("https://googleapis.com", True),
        ("https://evilgoogleapis.com/", False),
        ("https://googleapis.com.example.com/", False),
        ("https://www.googleapis.com@127.0.0.1:3/", False),
    ],
)
def test_an_endpoint_is_googles_by_its_host_alone(endpoint: str, googles: bool) -> None:
    found = emulated.substitutes({"GOOGLE_COMPUTE_CUSTOM_ENDPOINT": endpoint})
    assert [each.variable for each in found] == ([] if googles else ["GOOGLE_COMPUTE_CUSTOM_ENDPOINT"])


def test_stand_in_is_said_where_providers_start_also_of_a_stack_that_cannot_be_told(tmp_path: Path) -> None:
    for verb in ("preview", "up", "refresh", "destroy", "import"):
        for target in ("foundation", ""):
            begun = start(verb, target, tmp_path)
            assert begun.notices[0].startswith(NOTICE), (verb, target)
            assert "pulumi plugin install resource gcp " in begun.notices[0]
            assert begun.environment["PATH"] == f"/usr/bin:{google_plugin.DIRECTORY}"
        for target in ("local", "tpu-vm"):
            begun = start(verb, target, tmp_path)
            assert (begun.notices, begun.environment["PATH"]) == ((), "/usr/bin"), (verb, target)
    for line in ("stack output", "preview --help"):
        assert start(line, "foundation", tmp_path).notices == ()


def test_placeholder_token_is_for_previews_without_credentials(tmp_path: Path) -> None:
    def token(line: str, **environment: str) -> str | None:
        return start(line, "foundation", tmp_path, **environment).environment.get("GOOGLE_OAUTH_ACCESS_TOKEN")

    assert token("preview") == google_plugin.PLACEHOLDER_TOKEN
    assert token("up") is None
    assert token("preview", GOOGLE_OAUTH_ACCESS_TOKEN="mine") == "mine"  # noqa: S106 - no token
    assert token("preview", GOOGLE_APPLICATION_CREDENTIALS="/key.json") is None
    (tmp_path / ".config/gcloud").mkdir(parents=True)
    (tmp_path / ".config/gcloud/application_default_credentials.json").touch()
    assert token("preview") is None


def test_what_the_stack_file_logs_in_with_are_credentials() -> None:
    assert wrapper.has_google_login("config:\n  gcp:credentials:\n    secure: v1:x\n")
    assert wrapper.has_google_login('config:\n  "gcp:accessToken": x\n')
    assert not wrapper.has_google_login("config:\n  gcp:project: p\n")


# --- where the engine keeps what it knows of its user ---


def test_credentials_are_looked_for_where_the_engine_keeps_them() -> None:
    users = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert home.credentials_path({"HOME": "/another"}) == users / ".pulumi" / "credentials.json"
    assert home.credentials_path({"PULUMI_HOME": "/p"}) == Path("/p/credentials.json")
    paths = {"PULUMI_HOME": "/p", "PULUMI_CREDENTIALS_PATH": "/c"}
    assert home.credentials_path(paths) == Path("/c/credentials.json")


# --- proxies ---


def test_without_a_proxy_nothing_is_set() -> None:
    assert without_proxy_on_loopback({"NO_PROXY": "corp"}) == {"NO_PROXY": "corp"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("localhost,127.0.0.1,::1", "localhost,127.0.0.1,::1")),
        ({"NO_PROXY": "corp, 127.0.0.1"}, ("corp,127.0.0.1,localhost,::1", "corp,127.0.0.1,localhost,::1")),
        ({"NO_PROXY": "a", "no_proxy": "b"}, ("a,localhost,127.0.0.1,::1", "b,localhost,127.0.0.1,::1")),
    ],
)
def test_proxy_is_not_asked_for_loopback_and_the_users_entries_stay(
    given: dict[str, str], expected: tuple[str, str]
) -> None:
    result = without_proxy_on_loopback({"https_proxy": "http://proxy:1", **given})
    assert (result["NO_PROXY"], result["no_proxy"]) == expected
    assert result["https_proxy"] == "http://proxy:1"
    assert "no_grpc_proxy" not in result


def test_list_that_grpc_alone_reads_has_loopback_too() -> None:
    result = without_proxy_on_loopback({"grpc_proxy": "http://proxy:1", "no_grpc_proxy": "corp"})
    assert result["no_grpc_proxy"] == "corp,localhost,127.0.0.1,::1"


# --- locks ---


def test_lock_of_a_process_that_has_ended_is_stale() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock = locks.parse_lock(LOCK, lock_text(ended.pid))
    assert locks.find_process(ended.pid) is None
    assert locks.holder_is_gone(lock, HOST, locks.find_process(ended.pid))


def test_lock_of_a_killed_process_that_nobody_has_reaped_is_stale() -> None:
    zombie = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    zombie.kill()
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the process table
    try:
        assert locks.find_process(zombie.pid) is None
    finally:
        zombie.communicate()


def test_lock_of_a_running_process_is_held() -> None:
    process = locks.find_process(os.getpid())
    assert process is not None
    assert not locks.holder_is_gone(locks.parse_lock(LOCK, lock_text(os.getpid())), HOST, process)


def test_lock_whose_pid_now_belongs_to_a_younger_process_is_stale() -> None:
    before = datetime.now(UTC) - timedelta(days=1)
    lock = locks.parse_lock(LOCK, lock_text(os.getpid(), since=before))
    younger = locks.Process("bash", (before + timedelta(hours=1)).timestamp())
    assert locks.holder_is_gone(lock, HOST, younger)


def test_a_running_engine_keeps_its_lock_although_the_clock_jumped() -> None:
    before = datetime.now(UTC) - timedelta(days=1)
    lock = locks.parse_lock(LOCK, lock_text(7, since=before))
    assert not locks.holder_is_gone(lock, HOST, locks.Process("pulumi", before.timestamp() + 3600))


def test_lock_from_another_host_is_held_whatever_runs_here() -> None:
    assert not locks.holder_is_gone(locks.parse_lock(LOCK, lock_text(1, host="elsewhere")), HOST, None)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"pid": 1}', '{"pid": "x", "timestamp": "y"}'])
def test_unreadable_lock_is_held(text: str) -> None:
    lock = locks.parse_lock(LOCK, text)
    assert not locks.holder_is_gone(lock, HOST, None)
    assert locks.explain(lock).startswith("stack 'v6e-32' has an unreadable lock (/state/")


def test_lock_as_the_engine_writes_it_is_read() -> None:
    text = '{"pid":17105,"username":"ada","hostname":"vm","timestamp":"2026-11-21T00:54:25.26581068Z"}'
    lock = locks.parse_lock(LOCK, text)
    assert (lock.stack, lock.pid, lock.user, lock.host) == ("v6e-32", 17105, "ada", "vm")
    assert lock.since == datetime(2026, 11, 21, 0, 54, 25, 265810, tzinfo=UTC)


def test_explanation_says_who_since_when_and_what_to_do() -> None:
    moment = datetime(2026, 11, 21, 0, 54, 25).astimezone()
    lock = locks.parse_lock(LOCK, lock_text(17, host="vm", since=moment))
    assert locks.explain(lock) == (
        "stack 'v6e-32' is in use by ada@vm (pid 17) since 2026-11-21 00:54:25; wait for it, or if it never ends,"
        " run: .venv/bin/pulumi cancel --stack v6e-32"
    )


def test_a_stack_file_in_another_encoding_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.v6e-32.yaml").write_bytes("config: {}".encode("utf-16"))
    with pytest.raises(wrapper.RefusalError, match=r"Pulumi.v6e-32.yaml is not UTF-8 text: .*; save it as UTF-8$"):
        wrapper.read_text(tmp_path / "Pulumi.v6e-32.yaml")


# --- before the engine starts ---


@pytest.fixture
def ended() -> int:
    """The pid of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def locked(state: Path, stack: str, text: str) -> Path:
    file = state / ".pulumi/locks/organization/slipway" / stack / "1.json"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    return file


def test_a_held_lock_stops_what_changes_its_own_stack_alone(tmp_path: Path, ended: int) -> None:
    up, preview = command_line.parse(["up"]), command_line.parse(["preview"])
    held = locked(tmp_path, "theirs", lock_text(ended, host="elsewhere"))
    left = locked(tmp_path, "mine", lock_text(ended))
    wrapper.clear_locks(up, tmp_path, "slipway", None)  # of the stack that is selected, which only the engine knows
    assert (held.exists(), left.exists()) == (True, False)
    wrapper.clear_locks(preview, tmp_path, "slipway", "theirs")
    with pytest.raises(wrapper.RefusalError, match=r"'theirs' is in use by ada@elsewhere"):
        wrapper.clear_locks(up, tmp_path, "slipway", "theirs")
    assert held.exists()


def test_another_project_gets_neither_our_state_nor_our_stacks(tmp_path: Path) -> None:
    root, engine, other = tmp_path / "ours", tmp_path / "engine", tmp_path / "other"
    for folder, project in ((root, "slipway"), (other, "other")):
        folder.mkdir()
        (folder / "Pulumi.yaml").write_text(f"name: {project}\n")
    (root / ".venv").mkdir()
    (root / ".venv" / "engine-path").write_text(str(engine))
    engine.mkdir()
    (engine / "pulumi").touch(mode=0o755)
    begun = wrapper.prepare(["preview", "--stack", "v6e-32", "-C", str(other)], {"HOME": "/h", "PATH": "/p"}, root)
    assert begun == wrapper.Start(engine / "pulumi", {"HOME": "/h", "PATH": f"{engine}:/p"})
    assert not (root / ".slipway").exists()
