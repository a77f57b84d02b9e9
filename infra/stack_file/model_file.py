"""A model of the user's own: a YAML file of MaxText fields, as MaxText's own `configs/models/*.yml` are.

Owns reading it. The stack's `training:` keys win over it; it travels in the bundle beside the run spec.
"""

from __future__ import annotations

from typing import Any, cast

import yaml

from infra.paths import ROOT


class ModelFileError(ValueError):
    """One sentence on what is wrong with the file."""


def fields(name: object) -> dict[str, Any]:
    """MaxText fields of the file, which is named relative to the clone."""
    if not isinstance(name, str) or not name:
        raise ModelFileError(f"training.model_file is {name!r}; give the path of a YAML file of MaxText fields")
    try:
        document: object = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelFileError(f"training.model_file '{name}' cannot be read: {(error.strerror or '').lower()}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ModelFileError(f"training.model_file '{name}' is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(document, dict) or not all(isinstance(key, str) for key in cast(dict[object, object], document)):
        raise ModelFileError(f"training.model_file '{name}' is not a mapping of MaxText fields")
    return cast(dict[str, Any], document)
