"""Paths at which there is no file: where it was looked for, and what is near."""

import os
import shutil

import dfgen
from dfgen.errors import MissingFileError
from wrong_calls import WrongCall


def below(pets, change=str, **columns):
    """Return the frame with its paths below the working folder, `imgs/cat/100.jpg`, changed."""
    relative = [os.path.relpath(path, pets.folder).replace(os.sep, "/") for path in pets.frame.path]
    return pets.frame.assign(path=[change(path) for path in relative], **columns)


def opened(pets, change=str, **options):
    return dfgen.Sequence(below(pets, change), y="kind", **options)


def without(prefix):
    return lambda path: path.removeprefix(prefix)


def moved_manifest(pets, by_path):
    dfgen.write_manifest(below(pets), "pets.parquet")
    shutil.move("imgs", "moved")
    manifest = "pets.parquet" if by_path else dfgen.read_manifest("pets.parquet")
    return dfgen.Sequence(manifest, y="kind")


def deep(pets):
    shutil.copytree("imgs", "data/pets/imgs")
    shutil.rmtree("imgs")
    return opened(pets)


def flat(pets, change):
    for path in pets.frame.path:
        shutil.move(path, os.path.basename(path))
    return opened(pets, lambda path: change(os.path.basename(path)))


def renamed(pets, new, **options):
    os.rename("imgs", new)
    return opened(pets, **options)


def masks(pets):
    frame = below(pets)
    frame["mask"] = [path.replace("jpg", "png") for path in frame.path]
    return dfgen.Sequence(frame, y=dfgen.Mask("mask"), image_size=(8, 8))


def views(pets):
    frame = below(pets, lambda path: [path.replace("imgs", "img"), path])
    return dfgen.Sequence(frame, y="kind")


def fit_with_one_gone(pets):
    frame = below(pets)
    with dfgen.Sequence(frame, y="kind", image_size=(8, 8), shuffle=False, workers=0) as sequence:
        os.rename("imgs/dog/101.jpg", "imgs/dog/101.jpeg")
        return sequence[0]


def wrong(what, call, received, expected, advice):
    return WrongCall(what, call, MissingFileError, received, expected, advice)


CALLS = [
    wrong(
        "paths relative to another folder",
        lambda pets: opened(pets, without("imgs/")),
        "Row id=100, path='cat/100.jpg'",
        "6 of 6 sampled files are missing, of 12 rows",
        'give root="imgs" (6 of 6 are found by that)',
    ),
    wrong(
        "paths relative to the folder of the table, some levels down",
        deep,
        "path='imgs/cat/100.jpg'",
        "by root=None in the working folder '",
        'give root="data/pets"',
    ),
    wrong(
        "paths beside the working folder, as of notebooks",
        lambda pets: (os.mkdir("notebooks"), os.chdir("notebooks"), opened(pets))[-1],
        "path='imgs/cat/100.jpg'",
        "/notebooks/imgs/cat/100.jpg' by root=None",
        "'imgs/cat/100.jpg' is in '",
    ),
    wrong(
        "a root that the paths begin with too",
        lambda pets: opened(pets, root="imgs"),
        "path='imgs/cat/100.jpg'",
        "/imgs/imgs/cat/100.jpg' by root='imgs'",
        "leave root= out",
    ),
    wrong(
        "a root that is not there",
        lambda pets: opened(pets, without("imgs/"), root="images"),
        "by root='images'",
        "there is no file at '",
        'give root="imgs"',
    ),
    wrong(
        "a root that is not there, and that absolute paths do not need",
        lambda pets: opened(pets, os.path.abspath, root="img"),
        'there is no folder "img"',
        "Looked in ",
        'Did you mean "imgs"?',
    ),
    wrong(
        "a home folder",
        lambda pets: opened(pets, lambda path: f"~/{path}"),
        "path='~/imgs/cat/100.jpg'",
        '"~" is not expanded',
        'df["path"] = df["path"].map(os.path.expanduser)',
    ),
    wrong(
        "a variable of the shell",
        lambda pets: opened(pets, lambda path: f"$HOME/{path}"),
        "path='$HOME/imgs/cat/100.jpg'",
        '"$" is not expanded',
        'df["path"] = df["path"].map(os.path.expandvars)',
    ),
    wrong(
        "backslashes",
        lambda pets: opened(pets, lambda path: path.replace("/", "\\")),
        r"path='imgs\\cat\\100.jpg'",
        "backslashes part no folders here",
        r'df["path"] = df["path"].str.replace("\\", "/") (6 of 6 are found by that)',
    ),
    wrong(
        "paths of a Windows machine",
        lambda pets: opened(pets, lambda path: "C:\\Users\\ann\\" + path.replace("/", "\\")),
        r"path='C:\\Users\\ann\\imgs\\cat\\100.jpg'",
        "backslashes part no folders here",
        '.str.removeprefix("C:/Users/ann/") (6 of 6 are found by that)',
    ),
    wrong(
        "absolute paths of another machine",
        lambda pets: opened(pets, lambda path: f"/home/ann/pets/{path}"),
        "path='/home/ann/pets/imgs/cat/100.jpg'",
        "'imgs/cat/100.jpg' is in '",
        'df["path"] = df["path"].str.removeprefix("/home/ann/pets/")',
    ),
    wrong(
        "paths of Kaggle or Colab, in a folder of another name",
        lambda pets: opened(pets, lambda path: f"/kaggle/input/pets/{path.replace('imgs', 'jpg')}"),
        "path='/kaggle/input/pets/jpg/cat/100.jpg'",
        "'cat/100.jpg' is in '",
        'df["path"].str.removeprefix("/kaggle/input/pets/jpg/"), and give root="imgs"',
    ),
    wrong(
        "a leading slash",
        lambda pets: opened(pets, lambda path: f"/{path}"),
        "path='/imgs/cat/100.jpg'",
        "there is no file at '/imgs/cat/100.jpg'",
        'df["path"] = df["path"].str.removeprefix("/")',
    ),
    wrong(
        "addresses of a store",
        lambda pets: opened(pets, lambda path: f"gopher://bucket/{path}"),
        "path='gopher://bucket/imgs/cat/100.jpg'",
        '"gopher://" begins an address, which no store reads',
        "copy the files to a disk",
    ),
    wrong(
        "addresses of files",
        lambda pets: opened(pets, lambda path: f"file://{pets.folder}/{path}"),
        "path='file:///",
        '"file://" is no part of a path',
        '.str.removeprefix("file://") (6 of 6 are found by that)',
    ),
    wrong(
        "another extension",
        lambda pets: opened(pets, lambda path: path.replace(".jpg", ".png")),
        "path='imgs/cat/100.png'",
        "'100.jpg', of another extension, is in '",
        'df["path"] = df["path"].str.replace(".png", ".jpg")',
    ),
    wrong(
        "an extension in capitals",
        lambda pets: opened(pets, lambda path: path.replace(".jpg", ".JPG")),
        "path='imgs/cat/100.JPG'",
        "'100.jpg', in another case, is in '",
        'df["path"] = df["path"].str.replace(".JPG", ".jpg")',
    ),
    wrong(
        "no extension",
        lambda pets: opened(pets, lambda path: path.removesuffix(".jpg"), x=dfgen.Image("path")),
        "path='imgs/cat/100'",
        "'100.jpg' is in '",
        'df["path"] = df["path"].astype(str) + ".jpg"',
    ),
    wrong(
        "ids in place of names of files, which lie in several folders",
        lambda pets: opened(pets, lambda path: path[-7:-4], x=dfgen.Image("path")),
        "path='100'",
        "'100.jpg' is in '",
        'and give root="imgs/cat" (2 of 6 are found by that)',
    ),
    wrong(
        "ids that have become floats",
        lambda pets: flat(pets, lambda path: path.replace(".jpg", ".0")),
        "path='100.0'",
        "'100.jpg' is in '",
        'df["path"].astype(float).astype(int).astype(str) + ".jpg"',
    ),
    wrong(
        "a folder of another case",
        lambda pets: renamed(pets, "Imgs"),
        "path='imgs/cat/100.jpg'",
        "'cat/100.jpg' is in '",
        'df["path"].str.removeprefix("imgs/"), and give root="Imgs"',
    ),
    wrong(
        "blanks around a path",
        lambda pets: opened(pets, lambda path: f" {path}", x=dfgen.Image("path")),
        "path=' imgs/cat/100.jpg'",
        "blanks or a line end around it",
        'df["path"] = df["path"].str.strip()',
    ),
    wrong(
        "a line end behind a path, as readlines leaves it",
        lambda pets: opened(pets, lambda path: f"{path}\n", x=dfgen.Image("path")),
        r"path='imgs/cat/100.jpg\n'",
        "blanks or a line end around it",
        'df["path"] = df["path"].str.strip()',
    ),
    wrong(
        "a folder in place of a file",
        lambda pets: opened(pets, lambda path: path[:8], x=dfgen.Image("path"), id="id"),
        "path='imgs/cat'",
        "a folder is where a file should be",
        "df = dfgen.build_manifest('imgs/cat')",
    ),
    wrong(
        "nothing near at all",
        lambda pets: opened(pets, lambda path: f"scans/{path[-6:]}"),
        "path='scans/00.jpg'",
        "there is no folder 'scans' in it",
        "Give root=, the folder where the paths begin",
    ),
    wrong(
        "one file of a handful",
        lambda pets: (os.remove("imgs/cat/100.jpg"), opened(pets))[-1],
        "Row id=100, path='imgs/cat/100.jpg'",
        "1 of 6 sampled files are missing, of 12 rows",
        "holds '109.jpg', '106.jpg', '103.jpg'",
    ),
    wrong(
        "a renamed folder, with bad rows to be skipped",
        lambda pets: renamed(pets, "photos", on_error="skip"),
        "6 of 6 sampled files are missing",
        'on_error="skip" would train on zeros alone',
        'and give root="photos"',
    ),
    wrong(
        "a manifest whose images have moved, read",
        lambda pets: moved_manifest(pets, by_path=False),
        "path='cat/100.jpg'",
        "/imgs' of the manifest",
        'give dfgen.read_manifest root="moved"',
    ),
    wrong(
        "a manifest whose images have moved, by its path",
        lambda pets: moved_manifest(pets, by_path=True),
        "path='cat/100.jpg'",
        "/imgs' of the manifest",
        'give Sequence root="moved"',
    ),
    wrong(
        "masks of another extension",
        masks,
        "mask='imgs/cat/100.png'",
        "6 of 12 sampled files are missing",
        'df["mask"] = df["mask"].str.replace(".png", ".jpg")',
    ),
    wrong(
        "lists of paths in a folder of another name",
        views,
        "path='img/cat/100.jpg'",
        "'cat/100.jpg' is in '",
        'df["path"].str.removeprefix("img/"), and give root="imgs"',
    ),
    wrong(
        "a file that goes missing after the Sequence was made",
        fit_with_one_gone,
        "row id=101, path='imgs/dog/101.jpg'",
        "the file does not exist",
        "'101.jpeg', of another extension, is in '",
    ),
]
