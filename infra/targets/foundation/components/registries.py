"""Artifact Registry: Python packages, images of our own, and a mirror of public images for hosts without internet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_gcp as gcp

from infra.names import Names


@dataclass(frozen=True)
class RegistriesArgs:
    names: Names


class Registries(pulumi.ComponentResource):
    """Three repositories in the hosts' region. What is in them can be made again, so destroy removes them."""

    def __init__(self, name: str, args: RegistriesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("slipway:foundation:Registries", name, None, opts)
        names, child = args.names, pulumi.ResourceOptions(parent=self)

        def repository(
            kind: str, identifier: str, form: str, about: str, **more: Any
        ) -> gcp.artifactregistry.Repository:
            place: dict[str, Any] = {"project": names.project, "location": names.region}
            return gcp.artifactregistry.Repository(
                kind, repository_id=identifier, format=form, description=about, opts=child, **place, **more
            )

        remote = gcp.artifactregistry.RepositoryRemoteRepositoryConfigArgs(
            description="Public images, fetched on first use",
            docker_repository=gcp.artifactregistry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
                public_repository="DOCKER_HUB"
            ),
        )
        mirrors = {"mode": "REMOTE_REPOSITORY", "remote_repository_config": remote}
        about = "Public images, for hosts without internet"
        self.repositories = {
            "python": repository("python", names.python_repository, "PYTHON", "Python packages of this project"),
            "images": repository("images", names.images_repository, "DOCKER", "Images of this project"),
            "mirror": repository("mirror", names.mirror_repository, "DOCKER", about, **mirrors),
        }
        self.register_outputs({kind: repository.id for kind, repository in self.repositories.items()})
