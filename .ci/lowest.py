"""Prints what pyproject.toml has for TensorFlow at its lowest versions, as pip constraints."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for dependency in project["dependencies"] + project["optional-dependencies"]["tensorflow"]:
    print(dependency.replace(">=", "=="))
