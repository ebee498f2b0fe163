"""Prints what pyproject.toml has for TensorFlow and Dask, at lowest versions as pip constraints."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for dependency in project["dependencies"] + extras["tensorflow"] + extras["dask"]:
    print(dependency.replace(">=", "=="))
