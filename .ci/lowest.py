"""Prints the core dependencies of pyproject.toml at their lowest versions, as pip constraints."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
for dependency in project["dependencies"]:
    print(dependency.replace(">=", "=="))
