"""Workflows name what is there, in versions, and publish what was tried; all tell one version.

`make dist` compares them with the schema of workflows, and audits them.
"""

import re
from pathlib import Path

import pytest
import yaml

import dfgen
from dfgen.samples.features.older_members import _NOW as OLDER_MEMBERS

HOUSE = Path(__file__).parents[2]
FILES = {path.stem: path for path in (HOUSE / ".github/workflows").glob("*.yml")}
FLOWS = {name: yaml.safe_load(path.read_text("utf-8")) for name, path in FILES.items()}
STEPS = [
    (name, step)
    for name, flow in FLOWS.items()
    for job in flow["jobs"].values()
    for step in job["steps"]
]


def test_there_are_workflows_of_releases_docs_and_what_is_to_come():
    assert set(FLOWS) == {"release", "docs", "upstream"}


@pytest.mark.parametrize("name", FLOWS)
def test_nothing_is_allowed_but_to_the_job_that_needs_it(name):
    assert FLOWS[name]["permissions"] == {}
    for job in FLOWS[name]["jobs"].values():
        assert job["permissions"] and job["timeout-minutes"] <= 120


def test_each_action_has_a_version():
    used = [step["uses"] for _, step in STEPS if "uses" in step]
    assert len(used) > 10
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", one)] == []


def test_each_script_target_and_extra_that_a_step_names_is_there():
    run = "\n".join(step["run"] for _, step in STEPS if "run" in step)
    scripts = re.findall(r"\.ci/[\w.]+", run)
    targets = re.findall(r"make ([\w-]+)", run)
    assert set(scripts) == {".ci/dist_files.py", ".ci/installed.py"}
    assert set(targets) == {"docs", "test-nightly"}
    assert all((HOUSE / script).is_file() for script in scripts)
    makefile = (HOUSE / "Makefile").read_text("utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_a_tag_alone_is_published_after_all_that_tries_it():
    jobs = FLOWS["release"]["jobs"]
    publish = jobs["publish"]
    assert publish["needs"] == "installed" and jobs["installed"]["needs"] == "build"
    assert publish["if"] == "github.event_name == 'push' && github.ref_type == 'tag'"
    assert publish["permissions"] == {"id-token": "write"}
    matrix = jobs["installed"]["strategy"]["matrix"]
    assert [os.partition("-")[0] for os in matrix["os"]] == ["ubuntu", "macos", "windows"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert {one["file"] for one in matrix["include"]} == {"whl", "tar.gz"}


def test_all_that_tells_the_version_tells_the_same():
    cited = yaml.safe_load((HOUSE / "CITATION.cff").read_text("utf-8"))
    newest = re.search(r"^## (\S+)", (HOUSE / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert cited["version"] == newest[1] == dfgen.__version__


def test_each_release_has_its_changes_under_breaking_deprecated_and_added():
    for release in (HOUSE / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]:
        parts = dict(
            re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", release, re.MULTILINE | re.DOTALL)
        )
        assert [name for name in ("Breaking", "Deprecated", "Added") if name in parts] == [*parts]
        if release.startswith("0.1.0"):
            assert [name for name in OLDER_MEMBERS if f"`{name}`" not in parts["Deprecated"]] == []
