"""What `import dfgen` offers: the names of `__init__.pyi`, each with its documentation."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cases import each

import dfgen

STUB = Path(dfgen.__file__).with_suffix(".pyi")


def test_public_names_are_those_that_type_checkers_and_editors_see():
    imports = [
        node
        for node in ast.parse(STUB.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ImportFrom)
    ]
    typed = {alias.asname: node.module for node in imports for alias in node.names}
    assert all(one.asname == one.name for node in imports for one in node.names)
    assert typed == dfgen._HOME
    assert dfgen.__all__ == sorted(typed)
    assert dir(dfgen) == sorted([*typed, "__version__"])


@each("name", dfgen.__all__)
def test_public_name_resolves_and_is_documented(name):
    documentation = getattr(dfgen, name).__doc__ or ""
    assert documentation
    assert not documentation.startswith(f"{name}("), "that is the docstring dataclass made up"


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'dfgen' has no attribute 'Sequense'$"):
        dfgen.Sequense  # noqa: B018


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("flow_from_dataframe", 'dfgen.Sequence(df, x="path", y="label") feeds a frame to fit'),
        (
            "image_dataset_from_directory",
            'dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg") makes the frame of a folder',
        ),
    ],
)
def test_a_name_of_another_library_is_told_as_what_there_is_here(name, here):
    with pytest.raises(AttributeError) as caught:
        getattr(dfgen, name)
    assert str(caught.value) == f"module 'dfgen' has no attribute {name!r}: {here}"


def test_names_of_other_libraries_are_none_of_dfgen():
    foreign = [name for names in dfgen._ELSEWHERE.values() for name in names]
    assert len(set(foreign)) == len(foreign)
    assert not {*foreign} & {*dfgen.__all__}
    for name in re.findall(r"dfgen\.(\w+)", " ".join(dfgen._ELSEWHERE)):
        assert name in (*dfgen.__all__, "migrate")


def test_public_names_are_found_in_a_zip_file_too(tmp_path):
    source = Path(dfgen.__file__).parent
    left_out = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(source, tmp_path / "tree" / "dfgen", ignore=left_out)
    archive = shutil.make_archive(f"{tmp_path}/dfgen", "zip", tmp_path / "tree")
    code = "import dfgen; print(dfgen.__file__, dfgen.DfgenError.__name__)"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": archive},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [os.path.join(archive, "dfgen", "__init__.py"), "DfgenError"]
