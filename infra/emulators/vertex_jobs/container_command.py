"""What a container of a job runs, without its image: Docker's ENTRYPOINT and CMD as Kubernetes overrides them.

An image is a name here: what it runs by itself is known only where somebody has said it (`ImageConfig`), and its files
are never fetched. `command` takes the entrypoint's place and the image's own CMD with it; `args` take CMD's.
$(NAME) in both is replaced by a variable of the container, and $$ is $: replicas were seen to be pods of GKE, whose
kubelet does that. That Vertex AI leaves it to the kubelet is our choice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$(?:(\$)|\(([^()]*)\))")


@dataclass(frozen=True)
class ImageConfig:
    """What an image runs and sets by itself."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def argv(image: ImageConfig, command: Sequence[str], args: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Empty where nothing says what to run."""
    words = [*(command or image.entrypoint), *(args or (() if command else image.cmd))]
    return [expanded(word, environment) for word in words]


def expanded(text: str, environment: Mapping[str, str]) -> str:
    """A reference to no variable stays as it is."""

    def value(found: re.Match[str]) -> str:
        if found[1]:
            return "$"
        return environment.get(found[2], found[0])

    return _REFERENCE.sub(value, text)
