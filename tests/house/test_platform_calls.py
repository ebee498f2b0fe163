"""Windows and macOS lack calls: dfgen asks for them in one module, and works without them.

A `sitecustomize` takes them away, which the worker processes load too.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import dfgen

PACKAGE = Path(dfgen.__file__).parent
MACOS = [
    *("os." + name for name in ("memfd_create", "posix_fallocate", "posix_fadvise", "fdatasync")),
    *("os." + name for name in ("sched_getaffinity", "RWF_NOWAIT", "pidfd_open", "preadv")),
]
WINDOWS = [
    *MACOS,
    *("os." + name for name in ("pread", "pwrite", "fchown", "sysconf", "set_blocking")),
    *("os." + name for name in ("register_at_fork", "geteuid", "getuid", "fork", "killpg")),
    *("mmap.MADV_DONTNEED", "signal.pthread_sigmask", "signal.SIGKILL", "fcntl"),
]
EACH_ROW_ONCE = [16, 0, 0, 0]
ORDERED = [*EACH_ROW_ONCE, "6d6e042aca44ebd3b4b1d72f5a817e57"]  # the order on every system
SITE = """
import importlib, sys
for name in {names}:
    module, _, attribute = name.partition(".")
    if attribute:
        vars(importlib.import_module(module)).pop(attribute, None)
    else:
        sys.modules[name] = None  # its import fails
"""
PROGRAM = """
import json, sys
import cv2, keras, pandas, pyarrow.parquet, tensorflow  # these know the system that they are on
sys.path.insert(0, "site")  # of this process, and of those that it starts
sys.modules.pop("sitecustomize", None)
import sitecustomize
sys.platform = sys.argv[1]
import dfgen
from dfgen import machine

df = dfgen.build_manifest("pets", pattern="{kind}/{id}.png", split={"train": 0.75, "val": 0.25})
dfgen.write_manifest(df, "pets.parquet")
dfgen.pack("pets.parquet", "packed", image_size=(16, 16))
told = {"lacks": not machine.HAS_MEMORY_FILES}
model = keras.Sequential([keras.Input((16, 16, 3)), keras.layers.Flatten(), keras.layers.Dense(2)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("sgd", loss)


def train(manifest, name, **more):
    try:
        seq = dfgen.Sequence(manifest, y="kind", image_size=(16, 16), batch_size=4, **more)
        with seq:
            backup = dfgen.BackupAndRestore(f"backup-{name}", seq)
            model.fit(seq, epochs=2, verbose=0, callbacks=[backup])
        receipt = seq.receipt
        told[name] = [receipt.rows, receipt.repeated, receipt.missing, receipt.skipped]
        told[name] += [receipt.digest] if manifest == "pets.parquet" else []
    except dfgen.DfgenError as error:
        told[name] = str(error)


train("pets.parquet", "threads", workers=2)
train("pets.parquet", "processes", workers=2, use_multiprocessing=True)
train("pets.parquet", "cache", cache="cache")
train("packed", "pack")
told["verify"] = dfgen.verify("pets.parquet").change.tolist()
print(json.dumps(told))
"""


def asked(path):
    """Yield what a module asks of the system it is on."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        kinds = ast.Attribute | ast.Call | ast.Import
        text = ast.unparse(node) if isinstance(node, kinds) else ""
        if text in {"sys.platform", "os.name", "import fcntl", *MACOS} or text.startswith(
            ("hasattr(os,", "getattr(os,", "hasattr(signal,", "hasattr(mmap,")
        ):
            yield text


@pytest.mark.slow
def test_one_module_asks_which_system_it_is_on():
    found = {path.relative_to(PACKAGE).as_posix(): {*asked(path)} for path in PACKAGE.rglob("*.py")}
    others = {"machine.py", "manifest/paths.py"}  # how paths are written there
    assert {name: texts for name, texts in found.items() if texts and name not in others} == {}
    assert found["machine.py"] >= {"sys.platform", "os.name", "hasattr(os, 'memfd_create')"}


def run_without(names, platform, folder):
    for number in range(16):
        path = folder / "pets" / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(path), np.full((20, 20, 3), number * 10, np.uint8))
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE.format(names=names), "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, platform],
        cwd=folder,
        env={
            **os.environ,
            "KERAS_BACKEND": "tensorflow",
            "PYTHONPATH": str(PACKAGE.parent),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_training_works_without_calls_missing_on_macos(tmp_path):
    assert run_without(MACOS, "darwin", tmp_path) == {
        "lacks": True,
        **dict.fromkeys(("threads", "processes", "cache"), ORDERED),
        "pack": EACH_ROW_ONCE,
        "verify": [],
    }


@pytest.mark.slow
def test_only_threads_and_packs_train_on_windows(tmp_path):
    assert run_without(WINDOWS, "win32", tmp_path) == {
        "lacks": True,
        "threads": ORDERED,
        "processes": "use_multiprocessing=True does not work on Windows: use threads",
        "cache": "cache='cache' must be a folder of this machine, without ~, and not on Windows: "
        "a cache is mapped into memory",
        "pack": EACH_ROW_ONCE,
        "verify": [],
    }
