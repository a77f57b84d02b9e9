"""The contracts of the resources that several targets declare: token, inputs, and what a change of each input means.

Program and provider both build on them: of a resource X, `XInputs` is the contract, `X` is what the program declares
(infra/components/resources.py) and `XResource` is what the provider does (a module of its own in this folder). The
contracts of one target's own resources stand in its folder. Light imports only: every preview pays for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.providers.resource import ignored, replaces, updates


@dataclass(frozen=True)
class StackGuardInputs:
    token: ClassVar[str] = "slipway:stack:StackGuard"
    target: str = replaces()
    place: str = replaces()  # where it may leave something billed, as the target's `billed` takes it
    stack: str = replaces()  # its label
    owner: str = ignored()


@dataclass(frozen=True)
class StoredWheelhouseInputs:
    token: ClassVar[str] = "slipway:artifacts:Wheelhouse"
    store: str = replaces()  # a directory, gs://bucket/prefix or s3://bucket/prefix
    wheelhouse: str = updates()  # its id
    arguments: list[str] = ignored()  # of `slipway wheels build`; what they say is in the id


@dataclass(frozen=True)
class StoredBundleInputs:
    token: ClassVar[str] = "slipway:artifacts:Bundle"
    store: str = replaces()  # a directory, gs://bucket/prefix or s3://bucket/prefix
    bundle: str = updates()  # its hash
    run_spec: str = ignored()
    wheelhouse: str = ignored()
    lock: str = ignored()
    model_file: str = ignored()  # or empty
    python: str = ignored(default="")  # the archive of its hosts' Python, as sha256sum names it
    overlay: str = ignored(default="")  # wheels that replace locked ones, likewise
    user: str = ignored(default="")  # owner/stack in a store that others use too, else empty
    state: str = ignored(default="")  # its guard's identity there


@dataclass(frozen=True)
class PreparedDataInputs:
    token: ClassVar[str] = "slipway:data:PreparedData"
    directory: str = replaces()  # where hosts find it: a directory of this machine, or <bucket>/path/<content>
    tokens_needed: int = updates()
    max_epochs: int = updates()
    on_destroy: str = updates()
    arguments: list[str] = ignored()  # of training.data.prepare; what they say is in the directory's name
    artifacts: str = ignored()
    bundle: str = ignored()
    root: str = ignored()
    hosts: int = updates(default=0)  # 0 here and below: of a state that is too old to say it
    vocab_size: int = updates(default=0)
    copied_by: int = ignored(default=0)  # how many hosts copy it from a bucket
    prepared_in: str = ignored(default="")  # of a bucket's: a directory of this machine; empty: made elsewhere
    region: str = ignored(default="")  # of hosts that read a bucket's


@dataclass(frozen=True)
class RunInputs:
    token: ClassVar[str] = "slipway:run:Run"
    directory: str = replaces()
    run_spec: str = updates()
    wheelhouse: str = updates()
    bundle: str = updates()
    overlay: list[str] = ignored()  # what replaces locked wheels; its hashes are in the wheelhouse's id


@dataclass(frozen=True)
class JobSetInstallationInputs:
    token: ClassVar[str] = "slipway:kubernetes:JobSetInstallation"
    cluster: str = replaces("it is another cluster")  # a context, or the server of the cluster of `kubeconfig`
    version: str = updates()
    content: str = updates()  # the hash of its manifests, which are too deep to be inputs
    image: str = updates()
    source: str = ignored()  # of the manifests: a URL, or a file of this machine
    fields: list[str] = ignored()  # what a JobSet that is there already has to know
    identity: str = ignored()  # its guard's
    kubeconfig: str = updates(default="")  # as JSON, of a cluster that the person's own does not have
