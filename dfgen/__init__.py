"""dfgen feeds Keras models from a pandas DataFrame.

Names are resolved on first use, so that `import dfgen` loads neither pandas nor Keras.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dfgen.errors import DfgenError as DfgenError
    from dfgen.loading.limits import Limits as Limits
    from dfgen.manifest.building.build import build_manifest as build_manifest
    from dfgen.manifest.diff import diff as diff
    from dfgen.manifest.io import read_manifest as read_manifest
    from dfgen.manifest.io import write_manifest as write_manifest
    from dfgen.manifest.split_manifest import split as split
    from dfgen.manifest.verify import verify as verify
    from dfgen.samples.albumentations import albumentations as albumentations
    from dfgen.samples.features import Array as Array
    from dfgen.samples.features import Boxes as Boxes
    from dfgen.samples.features import Bytes as Bytes
    from dfgen.samples.features import Category as Category
    from dfgen.samples.features import Column as Column
    from dfgen.samples.features import Image as Image
    from dfgen.samples.features import Mask as Mask
    from dfgen.samples.features import MultiLabel as MultiLabel
    from dfgen.samples.features import Number as Number
    from dfgen.samples.features import Text as Text
    from dfgen.training.callbacks.backup import BackupAndRestore as BackupAndRestore
    from dfgen.training.callbacks.monitor import InputMonitor as InputMonitor
    from dfgen.training.sequence import Sequence as Sequence

_HOME = {
    "Array": "dfgen.samples.features",
    "BackupAndRestore": "dfgen.training.callbacks.backup",
    "Boxes": "dfgen.samples.features",
    "Bytes": "dfgen.samples.features",
    "Category": "dfgen.samples.features",
    "Column": "dfgen.samples.features",
    "DfgenError": "dfgen.errors",
    "Image": "dfgen.samples.features",
    "InputMonitor": "dfgen.training.callbacks.monitor",
    "Limits": "dfgen.loading.limits",
    "Mask": "dfgen.samples.features",
    "MultiLabel": "dfgen.samples.features",
    "Number": "dfgen.samples.features",
    "Sequence": "dfgen.training.sequence",
    "Text": "dfgen.samples.features",
    "albumentations": "dfgen.samples.albumentations",
    "build_manifest": "dfgen.manifest.building.build",
    "diff": "dfgen.manifest.diff",
    "read_manifest": "dfgen.manifest.io",
    "split": "dfgen.manifest.split_manifest",
    "verify": "dfgen.manifest.verify",
    "write_manifest": "dfgen.manifest.io",
}

__version__ = "0.1.0"
__all__ = [
    "Array",
    "BackupAndRestore",
    "Boxes",
    "Bytes",
    "Category",
    "Column",
    "DfgenError",
    "Image",
    "InputMonitor",
    "Limits",
    "Mask",
    "MultiLabel",
    "Number",
    "Sequence",
    "Text",
    "albumentations",
    "build_manifest",
    "diff",
    "read_manifest",
    "split",
    "verify",
    "write_manifest",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'dfgen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
