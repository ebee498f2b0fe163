"""One odd file among good ones ends no build: it is a problem of its row, or is named with its
line."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import annotated
import numpy as np
import pytest
from command import run

import dfgen
from dfgen.binding.arguments import SequenceArguments
from dfgen.binding.bind import bind
from dfgen.errors import ArgumentError, DecodeError, DfgenError, ManifestError
from dfgen.samples.features.arrays import Array

pytestmark = pytest.mark.filterwarnings("ignore:[0-9]+ problem")
linux = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="names of any bytes: Linux")


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Three images in the current folder, and an annotation of each."""
    monkeypatch.chdir(tmp_path)
    for name in "abc":
        annotated.image(f"imgs/{name}.png")
        annotated.xml(f"xml/{name}.xml", ("cat", 1, 2, 3, 4))
        write(f"labels/{name}.txt", "0 .5 .5 .5 .5")
    return tmp_path


def write(path, content):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def refused(error=ManifestError, **arguments):
    with pytest.raises(error) as caught:
        dfgen.build_manifest(**arguments)
    return str(caught.value)


def problems(frame):
    return frame["problem"].fillna("").tolist()


def png_of(width, height):
    """The header of a PNG, which is all that a build reads."""
    body = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + body + bytes(4)


def tiff_of(**tags):
    """A TIFF of one directory: width, height, bits, channels, orientation."""
    numbers = {"width": 256, "height": 257, "bits": 258, "channels": 277, "orientation": 274}
    known = {"width": 5, "height": 4, "bits": 8, "channels": 3, "orientation": 1, **tags}
    entries = sorted((numbers[name], value) for name, value in known.items())
    head = b"II*\0" + struct.pack("<IH", 8, len(entries))
    body = b"".join(
        struct.pack("<HHII", tag, 4 if value > 65535 else 3, 1, value) for tag, value in entries
    )
    return head + body + bytes(4)


def npy_of(text, promised=None):
    """A .npy file with a text for a header."""
    text = text.encode()
    return b"\x93NUMPY\2\0" + struct.pack("<I", promised or len(text)) + text + bytes(64)


def npy_of_shape(shape, kind="'<f4'"):
    return npy_of(f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}")


ODD = {
    "width.png": png_of(2**31 + 5, 4), "both.png": png_of(2**32 - 1, 2**32 - 1),
    "width.tif": tiff_of(width=2**31, height=2**31), "channels.tif": tiff_of(channels=32_768),
    "orientation.tif": tiff_of(orientation=65_535), "empty.png": b"",
    "length.npy": npy_of("{}", promised=2**32 - 1), "brackets.npy": npy_of("(" * 4_000),
    "signs.npy": npy_of("-" * 9_000 + "1"), "none.npy": npy_of("None"),
    "keys.npy": npy_of("{1: 2}"), "dtype.npy": npy_of_shape("(5, 3)", "None"),
    "fields.npy": npy_of_shape("(5, 3)", "[('a',)]"),
    "surrogate.npy": npy_of_shape("(5, 3)", "'\\ud800'"), "shape.npy": npy_of_shape("'x'"),
    "long.npy": npy_of_shape("9" * 5_000), "text.npy": b"\x93NUMPY\1\0",
}  # fmt: skip


def test_impossible_headers_are_problems_of_their_rows(data):
    for name, content in ODD.items():
        write(f"imgs/{name}", content)
    frame = dfgen.build_manifest("imgs", out="m.parquet").set_index("id")
    assert frame.loc[["a.png", "b.png", "c.png"], "problem"].isna().all()
    believed = {"channels.tif", "orientation.tif", "none"}
    assert {*frame.index[frame["problem"].isna()]} - {"a.png", "b.png", "c.png"} <= believed
    found = dfgen.verify("m.parquet", decode=True)
    assert set(found["id"]) == {*ODD} and set(found["change"]) == {"broken"}
    assert dfgen.build_manifest("imgs", update="m.parquet")["id"].tolist() == frame.index.tolist()


XML = {
    "": "xml/b.xml, line 1, column 1: broken XML, no element found. Write the file again, or "
        "remove it",
    "<annotation><size><width>1e30</width></size></annotation>":
        'xml/b.xml: <size/width> is "1e30", expected a number of pixels',
    f"<annotation><size><width>{'9' * 400}</width></size></annotation>":
        f'xml/b.xml: <size/width> is "{"9" * 400}", expected a number of pixels',
    "<?xml version='1.0' encoding='odd'?><annotation/>":
        "xml/b.xml cannot be read: LookupError: unknown encoding: odd",
    "<a>" * 100_000: "xml/b.xml, line 1, column 300001: broken XML, no element found. Write the "
        "file again, or remove it",
}  # fmt: skip


@pytest.mark.parametrize("text", XML, ids=["empty", "1e30", "digits", "encoding", "deep"])
def test_odd_voc_xml_file_is_a_row_problem(data, text):
    write("xml/b.xml", text)
    frame = dfgen.build_manifest(voc="xml", images="imgs", out="m.parquet")
    assert problems(frame) == ["", XML[text], ""]
    assert frame["label"].isna().tolist() == [False, True, False]
    assert problems(dfgen.read_manifest("m.parquet")) == problems(frame)


def test_images_without_a_single_box_have_no_classes(data):
    for name in "abc":
        write(f"xml/{name}.xml", "<annotation/>")
    frame = dfgen.build_manifest(voc="xml", images="imgs", out="m.parquet")
    assert [list(names) for names in frame["labels"]] == [[], [], []]


@pytest.mark.parametrize("kind", ["folder", "pipe", "socket", "device"])
def test_special_files_become_row_problems_without_waiting(data, kind):
    for path in ("imgs/b.png", "xml/b.xml"):
        os.remove(path)
        if kind == "folder":
            continue
        elif kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path)
        else:
            os.symlink("/dev/zero", path)
    if kind == "folder":
        annotated.image("imgs/b.png/d.png")
        os.makedirs("xml/b.xml")
        message = refused(voc="xml", images="imgs")
        assert '1 of 3 images have no .xml file: "b.png/d"\n' in message
        return
    frame = dfgen.build_manifest(voc="xml", images="imgs")
    assert problems(frame) == ["", f"xml/b.xml is a {kind}, expected a file", ""]
    assert problems(dfgen.build_manifest("imgs")) == ["", "not a regular file", ""]


IMAGE = {"id": 1, "file_name": "a.png"}
BIG = "1" + "0" * 30
FILES = {
    "coco width": (
        "coco", "c.json", json.dumps({"images": [{**IMAGE, "width": 10**20}]}),
        'c.json is JSON, but not as COCO has it, {"images": [...], "annotations": [...], '
        '"categories": [...]}: Expected `int` <= 2147483647 - at `$.images[0].width`',
    ),
    "coco deep": ("coco", "c.json", '{"x": ' + "[" * 100_000,
                  "c.json cannot be read: it is nested too deep"),
    "coco ids": ("coco", "c.json", '{"images": [], "categories": [{"id": "", "name": "a"}, '
                 '{"id": 1, "name": "b"}]}', "no file has labels or annotations"),
    "jsonl digits": ("labels", "l.jsonl", f'{{"path": "a.png"}}\n\n{{"path": "b", "n": {BIG}}}',
                     'l.jsonl: the values of "n" have not one type: Python int too large'),
    "jsonl many digits": ("labels", "l.jsonl", f'{{"n": {"9" * 5_000}}}',
                          "l.jsonl, line 1 is not JSON: Exceeds the limit "),
    "jsonl types": ("labels", "l.jsonl", '{"n": 1}\n{"n": 2}\n{"n": "x"}\n{"n": 3}',
                    'l.jsonl: the values of "n" have not one type: Could not convert '),
    "jsonl deep": ("labels", "l.jsonl", '{"n": 1}\n{"n": ' + "[" * 100_000,
                   "l.jsonl, line 2 is not JSON: it is nested too deep"),
    "jsonl surrogate": ("labels", "l.jsonl", '{"n": "\\ud800"}',
                        'l.jsonl: the values of "n" have not one type: '),
    "jsonl empty": ("labels", "l.jsonl", "\n", 'path_column="path" is not a column. Columns: none'),
    "toml digits": ("source", "r.toml", f"seed = {'9' * 5_000}",
                    "r.toml cannot be read as TOML: Exceeds the limit (4300 digits) "),
    "jsonl split": ("labels", "l.jsonl", '{"path": "a.png", "split": 5}',
                    'the column "split" has type int64, expected a split name'),
    "toml deep": ("source", "r.toml", f"x = {'[' * 100_000}",
                  "r.toml cannot be read as TOML: it is nested too deep"),
    "yaml date": ("yolo", "d.yaml", "names: [a]\ntrain: 2020-99-99",
                  "d.yaml names images in 2020-99-99: there is no "),
    "yaml bool": ("yolo", "d.yaml", "names: [a]\ntrain: !!bool x",
                  "d.yaml cannot be read as YAML: KeyError: 'x'"),
    "yaml nul": ("yolo", "d.yaml", "names: [a]\ntrain: \0",
                 "d.yaml cannot be read as YAML: ReaderError: unacceptable character"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_odd_source_file_is_named_with_its_line(data, name):
    source, path, content, message = FILES[name]
    write(path, content)
    more = {"path_column": "path"} if source == "labels" else {}
    said = refused(DfgenError, **{source: path}, **more)
    assert message in said
    arguments = [path] if source == "source" else [f"--{source}", path]
    arguments += ["--path-column", "path"] * bool(more)
    ended = run("build-manifest", *arguments, "--out", "m.parquet")
    assert (ended.returncode, ended.stderr) == (1, f"dfgen: {said}\n")


@pytest.mark.parametrize(
    ("source", "path"),
    [("coco", "x.json"), ("yolo", "x.yaml"), ("labels", "x.csv"),
     ("labels", "x.jsonl"), ("labels", "x.parquet"), ("source", "x.toml")],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_special_file_as_source_is_rejected_without_waiting(data, source, path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.symlink("/dev/zero", path)
    more = {"path_column": "path"} if source == "labels" else {}
    said = refused(DfgenError, **{source: path}, **more).replace("a table of labels:", "a file")
    assert said.startswith(f"{path} is a {kind}, expected a file")


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("command", ["verify", "split", "diff", "build-manifest"])
def test_special_file_as_manifest_is_rejected_without_waiting(data, kind, command):
    os.mkfifo("m.parquet") if kind == "pipe" else os.symlink("/dev/zero", "m.parquet")
    more = {
        "split": ["m.parquet", "--split", "a=1"],
        "diff": ["m.parquet", "m.parquet"],
        "build-manifest": ["imgs", "--update", "m.parquet"],
    }
    ended = run(command, *more.get(command, ["m.parquet"]))
    assert ended.returncode == 1 + (command in ("verify", "diff"))
    assert ended.stderr == f"dfgen: {data}/m.parquet is a {kind}, expected a file\n"


@linux
def test_non_utf8_name_is_left_out_and_reported(data):
    write(os.fsdecode(b"imgs/\xff.png"), b"x")
    write(os.fsdecode(b"imgs/s\xe9/d.png"), b"x")
    with pytest.warns(UserWarning, match=r"2 paths, name not UTF-8: \\xff\.png, s\\xe9/d\.png"):
        assert len(dfgen.build_manifest("imgs", out="m.parquet")) == 3
    ended = run("build-manifest", "imgs", "--out", "m.parquet")
    assert r"Left out: 2 paths, name not UTF-8: \xff.png, s\xe9/d.png" in ended.stdout


@linux
def test_non_utf8_folder_or_manifest_name_is_rejected(data, monkeypatch):
    odd = os.fsdecode(os.fsencode(data) + b"/\xff")
    os.rename("imgs", odd)
    folder = f"the path {os.fsencode(odd)!r} is not UTF-8: rename the "
    for given in (odd, Path(odd)):
        assert refused(ArgumentError, source=given) == folder + "file or folder"
    for call in (dfgen.read_manifest, dfgen.verify):
        with pytest.raises(ArgumentError, match="is not UTF-8, which Parquet's readers need"):
            call(odd + ".parquet")
    ended = run("build-manifest", odd, "--out", "m.parquet")
    assert ended.returncode == 1 and r"\xff' is not UTF-8" in ended.stderr


FULL = """
import errno, os, sys
import dfgen
dfgen.build_manifest("imgs")  # what is imported late
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError as error:
    assert error.errno == errno.EMFILE
try:
    dfgen.build_manifest({}, workers=1)
except dfgen.DfgenError as error:
    os.write(1, str(error).encode())
"""


@linux
@pytest.mark.parametrize(
    "source", ['labels="l.csv", path_column="path"', 'voc="xml", images="imgs"']
)
def test_missing_descriptors_are_no_file_problem(data, source):
    write("l.csv", "path\nimgs/a.png\n")
    code = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n{FULL}"
    code = code.replace("{}", source)
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=True
    )
    assert "Too many open files" in ended.stdout
    assert "cannot be read, and the file is not at fault: [Errno 24] " in ended.stdout


def test_scan_survives_circular_links_and_changing_files(data):
    os.symlink("..", "imgs/back")
    os.symlink("imgs/loop", "imgs/loop")
    os.symlink("self.png", "imgs/self.png")
    stop, image = threading.Event(), Path("imgs/a.png").read_bytes()

    def churn():
        while not stop.is_set():
            for n in range(20):
                write(f"imgs/come{n}.png", image)
            for n in range(20):
                os.remove(f"imgs/come{n}.png")

    thread = threading.Thread(target=churn, name="churn")
    thread.start()
    try:
        seen = 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(20):
                frame = dfgen.build_manifest("imgs").set_index("id")
                assert frame.loc[["a.png", "b.png", "c.png"], "problem"].isna().all()
                assert frame.loc["self.png", "problem"].startswith("[Errno 40] Too many levels")
                come = frame[frame.index.str.startswith("come")]
                said = come["problem"].dropna()
                assert said.isin(["the file does not exist", "the file is empty (0 bytes)"]).all()
                seen += len(come)
    finally:
        stop.set()
        thread.join()
    assert seen


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (np.zeros((3, 2)), "returned an array that has shape (3, 2), expected (2, 3)"),
        (np.full((2, 3), "a"), "returned an array that is <U1, which float32 cannot hold"),
        (None, "returned NoneType, expected numbers"),
        ([[1, 2], [3]], ""),
        ({"a": 1}, "returned dict, expected numbers"),
    ],
    ids=["shape", "dtype", "None", "ragged", "dict"],
)  # fmt: skip
def test_wrong_decode_result_names_row_path_and_function(data, made, message):
    frame = dfgen.build_manifest("imgs")[["id", "path"]]

    def decode(content):
        return made

    decode.__qualname__ = "decode"
    reader = bind(SequenceArguments(frame, x=Array("path", (2, 3), decode=decode), y=None)).reader
    with pytest.raises(DecodeError) as caught:
        reader.read(1, {"array": np.empty((2, 3), np.float32)}, None)
    path = frame["path"][1]
    said = str(caught.value)
    assert said.startswith(f"row id='b.png', path={path!r}: Array('path'): ")
    assert "decode" in said and message in said
