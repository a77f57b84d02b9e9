"""Artifact Registry: Python packages, images of our own, and a mirror of public images for hosts without internet."""

from __future__ import annotations

from dataclasses import dataclass

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
        python = gcp.artifactregistry.Repository(
            "python",
            repository_id=names.python_repository,
            project=names.project,
            location=names.region,
            format="PYTHON",
            description="Python packages of this project",
            opts=child,
        )
        images = gcp.artifactregistry.Repository(
            "images",
            repository_id=names.images_repository,
            project=names.project,
            location=names.region,
            format="DOCKER",
            description="Images of this project",
            opts=child,
        )
        public = gcp.artifactregistry.RepositoryRemoteRepositoryConfigDockerRepositoryArgs(
            public_repository="DOCKER_HUB"
        )
        mirror = gcp.artifactregistry.Repository(
            "mirror",
            repository_id=names.mirror_repository,
            project=names.project,
            location=names.region,
            format="DOCKER",
            mode="REMOTE_REPOSITORY",
            remote_repository_config=gcp.artifactregistry.RepositoryRemoteRepositoryConfigArgs(
                description="Public images, fetched on first use", docker_repository=public
            ),
            description="Public images, for hosts without internet",
            opts=child,
        )
        self.repositories = {"python": python, "images": images, "mirror": mirror}
        self.register_outputs({kind: repository.id for kind, repository in self.repositories.items()})
