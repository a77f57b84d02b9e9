"""What messages of infra/ and training/ advise somebody to run, read from the sources, and the test that runs each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_PROGRAMS = ("slipway", "pulumi", "make", "gcloud", "chmod", "export", "unset")
_COMMAND = re.compile(rf"(?<![-\w/.])(?:\.venv/bin/)?({'|'.join(_PROGRAMS)})((?: [^\s`;,()]+)+)")
# Verbs with verbs of their own.
_GROUPS = ("backend", "config", "data", "import", "patches", "plugin", "stack", "state", "wheels")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)

# The test that runs them -> programs with verbs and flags, as messages spell them. Only `make test-gcloud` has gcloud.
RUNS = {
    "tests/engine/test_a_target_is_a_folder.py::test_a_target_without_google": ("slipway preview",),
    "tests/engine/test_backend.py::test_the_bucket_is_made_first_and_the_engine_works_on_it": (
        "pulumi login",
        "pulumi logout",
        "slipway backend init",
    ),
    "tests/engine/test_doctor.py::test_this_machine_needs_no_account": ("slipway doctor",),
    "tests/engine/test_emulate_command.py::test_up_preemption_recovery_and_destroy_without_an_account": (
        "slipway stack new",
    ),
    "tests/engine/test_fit.py::test_a_preview_compiles_what_is_not_known_and_stops_where_it_does_not_fit": (
        "slipway fit",
    ),
    "tests/engine/test_fit.py::test_the_compiler_is_asked_of_each_lever": ("slipway fit --levers",),
    "tests/engine/test_gc_command.py::test_life_of_a_store": (
        "slipway gc",
        "slipway gc --delete",
    ),
    "tests/engine/test_gc_command.py::test_text_that_no_run_of_anybody_names_goes_from_the_data_bucket": (
        "slipway gc --data --delete",
    ),
    "tests/engine/test_gc_command.py::test_what_a_colleague_uses_is_kept_until_it_is_forgotten": (
        "slipway gc --forget",
    ),
    "tests/engine/test_google_plugin.py::test_the_plugin_is_found_where_the_engine_installs_it": (
        "pulumi plugin install",
    ),
    "tests/engine/test_local_stack.py::test_names_stop_replay_start_and_what_is_kept": (
        "make destroy",
        "slipway logs --host",
        "slipway purge",
        "slipway replay",
        "slipway start",
        "slipway stop",
        "slipway watch",
    ),
    "tests/engine/test_local_stack.py::test_the_road": (
        "make up",
        "slipway data prepare",
    ),
    "tests/engine/test_make.py::test_lock_of_what_is_locked_changes_nothing": ("make lock",),
    "tests/engine/test_make.py::test_setup_makes_an_environment_and_finds_the_engine": ("make setup",),
    "tests/engine/test_provider_states.py::test_what_was_made_at_the_real_service_is_not_touched_at_an_emulator": (
        "pulumi destroy",
        "unset",
    ),
    "tests/engine/test_provider_states.py"
    "::test_who_answers_is_said_and_the_way_back_to_the_real_service_is_closed_too": (
        "export",
        "pulumi state delete --stack --target-dependents",
    ),
    "tests/engine/test_stack_yaml.py::test_an_encrypted_value_is_refused_by_both": ("pulumi config set",),
    "tests/engine/test_standin_states.py"
    "::test_what_the_stand_in_made_is_gone_with_its_file_and_another_directory_is_refused": ("pulumi refresh",),
    "tests/engine/test_tpu_faults.py"
    "::test_orphans_are_what_belongs_to_no_stack_and_an_owner_is_found_in_each_spelling": (
        "pulumi stack rm --force",
        "slipway orphans",
    ),
    "tests/engine/test_wheels_command.py::test_what_is_there_is_built_again_to_the_same_wheelhouse": (
        "slipway wheels build",
    ),
    "tests/engine/test_booted_hosts.py::test_a_host_goes_on_after_a_preemption": ("slipway emulate --boot",),
    "tests/engine/test_host_without_python.py::test_it_installs_offline_and_has_every_module": (
        "slipway wheels python",
    ),
    "tests/engine/test_wrapper.py::test_first_preview_creates_the_stack_and_leaves_its_file_alone": ("pulumi preview",),
    "tests/engine/test_wrapper.py::test_lock_from_another_host_is_kept_until_it_is_cancelled": (
        "pulumi cancel",
        "pulumi cancel --stack",
        "pulumi cancel --stack --yes",
        "pulumi preview --diff --stack",
    ),
    "tests/engine/test_wrapper.py::test_lock_of_a_killed_engine_is_removed_with_a_notice": (
        "pulumi up",
        "pulumi up --stack",
    ),
    "tests/gcloud/test_gcloud.py::test_gcloud_has_what_a_message_advises": (
        "gcloud ai custom-jobs cancel --project --region",
        "gcloud auth application-default login",
        "gcloud billing accounts list",
        "gcloud compute regions list",
        "gcloud compute tpus queued-resources delete --force --project --zone",
        "gcloud compute tpus tpu-vm delete --project --zone",
        "gcloud projects list",
        "gcloud projects undelete",
        "gcloud secrets versions add --data-file --project",
        "gcloud services enable --project",
    ),
    "tests/unit/vertex_jobs/test_by_hand.py::test_the_command_serves_until_ctrl_c": ("slipway emulate --run",),
    "tests/unit/test_stored_data.py::test_the_command_says_what_a_stack_writes": ("slipway data push",),
    "tests/unit/test_doctor.py::test_our_plugin_without_the_right_to_be_executed": ("chmod +x",),
    "tests/unit/test_vertex_import.py::test_it_writes_the_stack_and_never_over_one_that_is_there": (
        "slipway import vertex-json",
    ),
    "tests/unit/test_hardware.py::test_the_command_prints_plain_text_or_json_when_piped": ("slipway hardware",),
}
RUN_BY = {command: test for test, commands in RUNS.items() for command in commands}
_VERBS = {re.split(r" [-+]", row)[0] for row in RUN_BY}


def advised() -> dict[str, str]:
    """Each command as RUN_BY spells it -> a file that advises it."""
    files = [path for folder in ("infra", "training") for path in sorted((ROOT / folder).rglob("*"))]
    found = dict[str, str]()
    for path in files:
        if path.suffix == ".py":
            texts = messages(ast.parse(path.read_text()))
        elif path.suffix == ".sh" or path.name.startswith("pulumi-resource-"):
            texts = iter(
                line for line in path.read_text().splitlines() if not line.lstrip().startswith(("#", "export"))
            )
        else:
            continue
        for text in texts:
            found |= dict.fromkeys(commands(text), str(path.relative_to(ROOT)))
    return found


def messages(tree: ast.AST) -> Iterator[str]:
    """Every text that is no docstring; what is filled in reads `X`."""
    apart = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            apart.add(id(node.body[0].value))  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(node, ast.JoinedStr):
            apart |= {id(part) for part in node.values}
            yield "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # pyright: ignore
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in apart:
            yield node.value


def commands(text: str) -> Iterator[str]:
    """The commands in a message, without names and values. What stands in no quotes may be prose."""
    for match in _COMMAND.finditer(text):
        program, words = match[1], [word.rstrip(".:'\"") for word in match[2].split()]
        named = next((index for index, word in enumerate(words) if not re.fullmatch(r"[a-z][a-z-]*", word)), len(words))
        grouped = 2 if words[0] in _GROUPS else 1
        deepest = {"gcloud": named, "make": 1, "slipway": grouped, "pulumi": grouped}.get(program, 0)
        verbs = " ".join([program, *words[: min(named, deepest)]])
        flags = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]|\+", word)}
        quoted = program == "gcloud" or text[: match.start()].endswith(("`", ": "))
        if program in ("export", "unset"):
            yield program
        elif (quoted and named) or verbs in _VERBS:
            yield " ".join([verbs, *sorted(flags)])
