"""The public names of dfgen and where they are: one line each, which `__init__.py` obeys."""

from dfgen.errors import DfgenError as DfgenError
from dfgen.limits import Limits as Limits
from dfgen.manifest.building.build import build_manifest as build_manifest
from dfgen.manifest.building.splitting import split as split
from dfgen.manifest.corrections import update_labels as update_labels
from dfgen.manifest.diff import diff as diff
from dfgen.manifest.diff import verify as verify
from dfgen.manifest.duplicates import duplicates as duplicates
from dfgen.manifest.duplicates import leaks as leaks
from dfgen.manifest.io import read_manifest as read_manifest
from dfgen.manifest.io import write_manifest as write_manifest
from dfgen.packing.pack import pack as pack
from dfgen.samples.features.annotations import Boxes as Boxes
from dfgen.samples.features.annotations import Keypoints as Keypoints
from dfgen.samples.features.arrays import Array as Array
from dfgen.samples.features.arrays import Bytes as Bytes
from dfgen.samples.features.arrays import Column as Column
from dfgen.samples.features.arrays import Text as Text
from dfgen.samples.features.audio import Audio as Audio
from dfgen.samples.features.base import Feature as Feature
from dfgen.samples.features.classes import Category as Category
from dfgen.samples.features.classes import MultiLabel as MultiLabel
from dfgen.samples.features.classes import Number as Number
from dfgen.samples.features.image import Image as Image
from dfgen.samples.features.masks import Mask as Mask
from dfgen.samples.features.masks import Segmentation as Segmentation
from dfgen.samples.transforms import albumentations as albumentations
from dfgen.serving.preprocessing import Preprocessing as Preprocessing
from dfgen.serving.preprocessing import load_preprocessing as load_preprocessing
from dfgen.spec import Spec as Spec
from dfgen.training.callbacks.backup import BackupAndRestore as BackupAndRestore
from dfgen.training.callbacks.monitor import InputMonitor as InputMonitor
from dfgen.training.predict_frame import predict_frame as predict_frame
from dfgen.training.sequence import Sequence as Sequence
from dfgen.training.split_sequences import sequences as sequences

__version__: str
