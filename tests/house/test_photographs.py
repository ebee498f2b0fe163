"""The photographs that the demo keeps: true labels, outlines that fit, known faults."""

import shutil

import pytest
from typer.testing import CliRunner

from dfgen.cli import app
from dfgen.errors import WriteError
from dfgen.photographs import write_photographs


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    result = CliRunner().invoke(app, ["demo", "--keep", str(folder), "--no-train"])
    assert result.exit_code == 0 and "photographs" in result.output
    assert [path.name for path in folder.iterdir()] == ["photographs"]
    return folder / "photographs"


def test_no_train_without_keep_says_what_to_give():
    result = CliRunner().invoke(app, ["demo", "--no-train"])
    assert result.exit_code == 2 and "--keep DIR" in result.output


@pytest.mark.slow
def test_two_times_give_equal_files(kept, tmp_path):
    write_photographs(tmp_path)
    files = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(files) > 1500
    assert all((tmp_path / name).read_bytes() == (kept / name).read_bytes() for name in files)


@pytest.mark.slow
def test_a_second_run_leaves_corrected_labels(kept, tmp_path):
    shutil.copytree(kept, tmp_path / "again")
    (tmp_path / "again/labels.csv").write_text("photo,thing,part\np0000,cat,cat-0\n")
    write_photographs(tmp_path / "again")
    assert "p0000,cat" in (tmp_path / "again/labels.csv").read_text()


@pytest.mark.parametrize("name", ["labels.csv", "coins.json", "README.md"])
def test_a_file_of_somebody_else_is_never_written_over(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(WriteError, match="holds other files: expected an empty folder"):
        write_photographs(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == [name]
