"""What is near a path at which there is no file: the mistake, the way out, and where that leads."""

import os
import pickle

import pytest
from cases import each

from dfgen.errors import MissingFileError
from dfgen.explain.near_names import Begin, advice, near, with_near

FILES = (
    "imgs/cat/100.jpg", "imgs/cat/100.xml", "imgs/cat/007.jpg", "imgs/a b.png",
    "imgs/M\u00fcller.png", "51.jpg", "data/pets/x/y/z.jpg", "project/keep",
)  # fmt: skip


@pytest.fixture
def cwd(tmp_path, monkeypatch):
    for name in FILES:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    return str(tmp_path)


CHANGE = 'write df["path"] = df["path"]'
TABLE = (
    ("cat/100.jpg", None, "'cat/100.jpg' is in '{}/imgs'", 'give root="imgs"'),
    ("./100.jpg", "imgs", "'100.jpg' is in '{}/imgs/cat'",
     CHANGE + '.str.removeprefix("./"), and give root="imgs/cat"'),
    ("imgs/cat/100.jpg", "imgs", "'imgs/cat/100.jpg' is in '{}'", "leave root= out"),
    ("C:/ann/imgs/cat/100.jpg", None, "'imgs/cat/100.jpg' is in '{}'",
     CHANGE + '.str.removeprefix("C:/ann/")'),
    ("C:\\ann\\imgs\\cat\\100.jpg", None, "backslashes part no folders here",
     CHANGE + r'.str.replace("\\", "/")' + ". Then 'imgs/cat/100.jpg' is in '{}': " + CHANGE
     + '.str.removeprefix("C:/ann/")'),
    ("~/imgs/cat/100.jpg", None, '"~" is not expanded', CHANGE + ".map(os.path.expanduser)"),
    ("$HOME/51.jpg", None, '"$" is not expanded', CHANGE + ".map(os.path.expandvars)"),
    ("file://imgs/cat/100.jpg", None, '"file://" is no part of a path',
     CHANGE + '.str.removeprefix("file://")'),
    ("s3://bucket/imgs/cat/100.jpg", None, '"s3://" begins an address, which no store reads',
     "copy the files to a disk, or mount the store as a folder, and give paths"),
    (" 51.jpg\n", None, "it has blanks or a line end around it", CHANGE + ".str.strip()"),
    ("imgs/a%20b.png", None, "it has %20 or the like in it", CHANGE + ".map(urllib.parse.unquote)"),
    ("imgs/Mu\u0308ller.png", None, "its accents are stored otherwise",
     CHANGE + '.str.normalize("NFC")'),
    ("imgs/cat/100.png", None, "'100.jpg', of another extension, is in '{}/imgs/cat'",
     CHANGE + '.str.replace(".png", ".jpg")'),
    ("imgs/cat/100.JPG", None, "'100.jpg', in another case, is in '{}/imgs/cat'",
     CHANGE + '.str.replace(".JPG", ".jpg")'),
    ("imgs/cat/100", None, "'100.jpg' is in '{}/imgs/cat'", CHANGE + '.astype(str) + ".jpg"'),
    ("51.0", None, "'51.jpg' is in '{}'",
     CHANGE + '.astype(float).astype(int).astype(str) + ".jpg"'),
    ("7", None, "'007.jpg' is in '{}/imgs/cat'",
     CHANGE + '.astype(str).str.zfill(3) + ".jpg", and give root="imgs/cat"'),
    ("z.jpg", "data/pets", "'z.jpg' is in '{}/data/pets/x/y'", 'give root="data/pets/x/y"'),
)  # fmt: skip


@each(("path", "root", "what", "steps"), TABLE)
def test_what_is_near_a_path_is_told_with_what_to_write(path, root, what, steps, cwd):
    found = near(path, Begin("path", root))
    assert found.advice == f"{what}: {steps}".replace("{}", cwd)
    assert os.path.exists(found.place(path)) is not path.startswith("s3")


def test_where_other_files_are_there_no_other_folder_is_meant(cwd):
    assert near("cat/100.jpg", Begin("path"), alone=True) is None
    assert near("imgs/cat/100.png", Begin("path"), alone=True)
    said = advice(["cat/100.jpg"], Begin("path"), alone=True)
    assert said.endswith("Leave such rows out")


def test_the_root_of_a_manifest_is_changed_where_it_was_given(cwd):
    found = near("cat/100.jpg", Begin("path", f"{cwd}/gone", "dfgen.read_manifest"))
    assert found.advice.endswith(': give dfgen.read_manifest root="imgs"')


def test_a_table_that_nobody_can_change_is_told_the_option_alone(cwd):
    begin = Begin("path", cwd, frame="", argument="images=", option=" (--images)")
    assert near("dog/cat/100.jpg", begin).advice == (
        f"'cat/100.jpg' is in '{cwd}/imgs': give images=\"imgs\" (--images)"
    )


def test_where_nothing_is_near_the_folder_is_told_whose_names_are_most_like_it(cwd):
    assert near("imgs/cat/800.jpg", Begin("path")) is None
    assert advice(["imgs/cat/800.jpg"], Begin("path"), alone=True) == (
        f"The folder '{cwd}/imgs/cat': holds '100.jpg', '007.jpg', '100.xml', .... Leave such rows "
        "out"
    )
    assert advice(["img/800.jpg"], Begin("path")) == (
        f"The folder '{cwd}': there is no folder 'img' in it, it holds 'imgs', '51.jpg', 'project',"
        " .... Give root=, the folder where the paths begin"
    )


def test_an_error_of_a_worker_process_is_told_with_what_is_near_its_missing_file(cwd):
    error = MissingFileError("row id=1: the file does not exist")
    error.files = (("path", "51.jpg"), ("mask", "imgs/cat/100.png"))
    error = pickle.loads(pickle.dumps(error))
    with_near(error)
    assert str(error) == (
        "row id=1: the file does not exist. '100.jpg', of another extension, is in "
        f"'{cwd}/imgs/cat'"
    )
