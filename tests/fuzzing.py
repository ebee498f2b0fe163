"""Reads damaged files as users do, and says what came of each.

python tests/fuzzing.py png 17          # one case
python tests/fuzzing.py FILE 0 500      # cases 0 to 499 of all kinds in turn, told to a file
python tests/fuzzing.py FILE 0 500 more # of those, too, that `make fuzz` alone tries
python tests/fuzzing.py png input.png   # a file
"""

import faulthandler
import gc
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path

import annotated
import numpy as np
import pyarrow as pa
from damage import KINDS, MORE, case, packed, seeds, sequence, slots

import dfgen
from dfgen.errors import ArgumentError, DecodeError, ManifestError, MissingFileError
from dfgen.limits import Limits
from dfgen.manifest.building.file_facts import Access
from dfgen.manifest.building.scan import read_facts
from dfgen.samples.features.arrays import Array
from dfgen.samples.features.image import Image
from dfgen.samples.reader import BoundFeature, SampleReader
from dfgen.spec import empty
from dfgen.stores.stores import Stores

ALARM = 60
"""Seconds that a case may take, however busy the machine."""
MEMORY = 2**30
"""Bytes that a case may take."""
WARM = 20 * len(KINDS)
"""Cases after which nothing more may stay: threads of pools, caches and modules are there."""
LISTS_THE_DISK = re.compile(rb"""(?:^|["'\s=:\[,-])/[/.]*(?:["'\s\],]|$)|\.\.""")
"""Paths that a source of files would list for minutes, and differently each time."""
OF_DECODERS = re.compile(r"(?:(?:libpng |\[ ?\w+:|[\w.]+: ).*\n)+")
"""What the libraries of OpenCV and Pillow print about damaged images, beside the error."""
LIMITS = Limits(decoded_bytes="128MiB")
"""Colours, floats and resizing make a few times as much of it."""
OPTIONS = (
    Image("path", size=(24, 32)),
    Image("path", size=(24, 32), color_mode="rgba", dtype="float32"),
    Image("path", size=(24, 32), color_mode="grayscale", dtype="uint16"),
    Image("path", size=(2, 3)),
)


def read_image(path, number):
    [facts] = read_facts(pa.array([path]), Access(1)).to_pylist()
    assert facts["problem"] is None or facts["problem"].strip(), facts
    feature = OPTIONS[number % len(OPTIONS)]
    sample(feature, pa.array([path]), path)


def read_npy(path, number):
    read_facts(pa.array([path]), Access(1))
    if number % 2:
        return sample(Array("path", (6, 5)), pa.array([path]), path)
    rows(Array("path", (5,), index="index"), path)


def read_hdf5(path, number):
    read_facts(pa.array([path]), Access(1), decode=number % 2 == 0)
    rows(Array("path", (5,), index="index", dataset="x"), path)


def read_manifest(path, number):
    frame(dfgen.read_manifest(path), path)


def read_parquet(path, number):
    frame(dfgen.build_manifest(labels=path, path_column="path", facts="none"), path)


def read_xml(path, number):
    options = {"images": "images/train", "facts": "none", "unmatched": "keep"}
    frame(dfgen.build_manifest(voc=os.path.dirname(path), **options), path)


def read_coco(path, number):
    frame(dfgen.build_manifest(coco=path, images="images/train", facts="none"), path)


def read_yaml(path, number):
    frame(dfgen.build_manifest(yolo=path), path)


def read_toml(path, number):
    frame(dfgen.build_manifest(path), path)


def read_csv(path, number):
    frame(dfgen.build_manifest(labels=path, path_column="path", facts="none"), path)


def read_state(path, number):
    try:
        state = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):  # the user's own reading
        return
    with sequence() as seq:
        seq.load_state_dict(state)


def read_preprocessing(path, number):
    dfgen.load_preprocessing(path)


def read_pack(path, number):
    """Put a damaged file in the place of each file of a pack."""
    data = Path(path).read_bytes()
    whole = sorted(each for each in Path(packed().name, "pack").iterdir() if each.is_file())
    folder = Path("pack")
    shutil.copytree(whole[0].parent, folder)
    try:
        (folder / whole[number % len(whole)].name).write_bytes(data)
        with dfgen.Sequence(folder, y="id", shuffle=False, batch_size=3) as seq:
            images, ids = seq[0]
        assert np.array_equal(np.asarray(images)[:, 0, 0, 0], np.asarray(ids)), ids
    finally:
        shutil.rmtree(folder)


def read_cache(path, number):
    """Put a damaged file in the place of a cache's; what it gives must be what it was given."""
    names = ("x.slots", "x.records")
    for name, data in zip(names, seeds("cache"), strict=True):
        Path(name).write_bytes(data)
    shutil.copy(path, names[number % 2])
    found = slots(".")
    for value in range(3):
        assert not found.holds(value, 5) or (found.arrays[value] == value).all(), value


NAMES = {
    "csv": (read_csv, "labels.csv"),
    "state": (read_state, "state.json"),
    "preprocessing": (read_preprocessing, "p.json"),
    "pack": (read_pack, "shard"),
    "cache": (read_cache, "damaged"),
    "npy": (read_npy, "x.npy"),
    "hdf5": (read_hdf5, "x.h5"),
    "manifest": (read_manifest, "m.parquet"),
    "parquet": (read_parquet, "labels.parquet"),
    "xml": (read_xml, "xml/0.xml"),
    "coco": (read_coco, "coco.json"),
    "jsonl": (read_csv, "labels.jsonl"),
    "yaml": (read_yaml, "data.yaml"),
    "toml": (read_toml, "recipe.toml"),
}
"""Kind -> what reads it, and what its file is called; others are images."""


def sample(feature, values, path, row=0):
    """Read a row, of which the error says id and path."""
    part = BoundFeature("x", feature, values)
    reader = SampleReader(np.array([700, 701]), (part,), store=Stores(LIMITS))
    out = {name: empty(spec, ()) for name, spec in reader.specs.items()}
    try:
        reader.read(row, out, None)
    except DecodeError as error:
        if not (f"row id={700 + row}" in str(error) and repr(path) in str(error)):
            raise AssertionError(f"the error names no row: {error}") from error
        raise


def rows(feature, path):
    """Read the first row of an array file and the last of two."""
    values = pa.StructArray.from_arrays([[path] * 2, [0, 1]], ["path", "index"])
    for row in (0, 1):
        sample(feature, values, path, row)


def frame(made, path=None):
    assert type(made).__name__ == "DataFrame"


def tried(kind, number, data=None):
    """Return what came of a case, or of a file: None for an array or manifest, or the error."""
    read, name = NAMES.get(kind, (read_image, f"image.{kind}"))
    data = case(kind, number) if data is None else data
    if kind in ("yaml", "toml") and LISTS_THE_DISK.search(data):
        return None
    Path(name).write_bytes(data)
    try:
        read(os.path.abspath(name), number)
    except (DecodeError, ManifestError, ArgumentError, MissingFileError) as error:
        return error
    finally:
        os.remove(name)
    return None


def make_folder():
    for name in ("train/0.png", "train/1.png", "val/2.png"):
        annotated.image(f"images/{name}")
        Path(f"labels/{name}").parent.mkdir(parents=True, exist_ok=True)
        Path(f"labels/{name[:-4]}.txt").write_text("1 0.5 0.25 0.5 0.25\n")
    Path("xml").mkdir()
    Path("json").mkdir()


class Watch:
    """What a process printed and took, between one look and the next."""

    def __init__(self, printed):
        self.printed = os.open(printed, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(self.printed, number)
        self.seen, self.base = 0, self.resident()

    def output(self):
        """Return what was printed since."""
        size = os.fstat(self.printed).st_size
        text = os.pread(self.printed, size - self.seen, self.seen)
        self.seen = size
        return text.decode(errors="replace")

    def peak(self):
        """Return how many bytes more than at first were taken at once, and begin anew if many."""
        status = Path("/proc/self/status").read_text()  # ru_maxrss begins with that of the parent
        found = 1024 * int(status.partition("VmHWM:")[2].split(maxsplit=1)[0]) - self.base
        if found > MEMORY // 16:
            Path("/proc/self/clear_refs").write_text("5")
        return found

    @staticmethod
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def held(self):
        gc.collect()
        return {
            "descriptors": sorted(map(target, os.listdir("/proc/self/fd"))),
            "threads": len(os.listdir("/proc/self/task")),
            "bytes": self.resident(),
        }


def target(number):
    """Return what a descriptor is of; of one that is gone, as that of the listing, nothing."""
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except FileNotFoundError:
        return ""


def run(log, first, last, kinds=KINDS):
    """Tell a file of each case as it begins, of what should not be, and of what is left."""
    told = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def tell(*what):
        os.write(told, json.dumps(what).encode() + b"\n")

    watch, counts, held = Watch(f"{log}.printed"), {}, None
    for index in range(first, last):
        if index - first == WARM:
            held = watch.held()
        number, kind = divmod(index, len(kinds))
        kind = kinds[kind]
        tell("begin", index)
        faulthandler.dump_traceback_later(ALARM, exit=True)
        start = time.process_time()
        try:
            error = tried(kind, number)
        except BaseException as foreign:
            error = foreign
            tell("found", kind, number, traceback.format_exc()[-2000:])
        took = time.process_time() - start
        faulthandler.cancel_dump_traceback_later()
        text = watch.output()
        if text and not OF_DECODERS.fullmatch(text):
            tell("found", kind, number, f"printed: {text}")
        peak = watch.peak()
        if peak > MEMORY:
            tell("found", kind, number, f"took {peak:,} bytes")
        if took > 1 or peak > MEMORY // 8:
            tell("large", kind, number, round(took, 2), peak, str(error)[:200])
        count = counts.setdefault(kind, [0, 0, 0.0])
        count[0], count[1], count[2] = count[0] + 1, count[1] + (error is None), count[2] + took
        del error
    tell("done", counts, held and [held, watch.held()])


def main():
    faulthandler.enable()
    warnings.simplefilter("always")  # of others they are printed, and found
    warnings.filterwarnings("ignore", category=UserWarning, module="__main__")  # dfgen's for users
    warnings.filterwarnings("ignore", module="PIL")  # about damaged images
    what, *numbers = sys.argv[1:]
    kinds = (*KINDS, *MORE)
    [seeds(kind) for kind in (kinds if what in MORE or numbers[2:] else KINDS)]
    given = Path(numbers[0]).read_bytes() if Path(numbers[0]).is_file() else None
    log = os.path.abspath(what)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_folder()
        if what in kinds and given is not None:
            print([repr(tried(what, number, given)) for number in range(len(OPTIONS))])
        elif what in kinds:
            print(repr(tried(what, int(numbers[0]))))
        else:
            run(log, *map(int, numbers[:2]), kinds if numbers[2:] else KINDS)
        os.chdir("/")


if __name__ == "__main__":
    main()
