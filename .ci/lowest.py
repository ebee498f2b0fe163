"""Prints the lowest versions that pyproject.toml allows, as constraints of pip."""

import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
extras = project["optional-dependencies"]
for dependency in project["dependencies"] + [one for name in extras for one in extras[name]]:
    if ">=" in dependency:
        print(dependency.replace(">=", "=="))
