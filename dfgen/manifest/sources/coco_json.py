"""COCO's JSON as it is on disk; what is not named here, such as segmentations, is never built."""

import mmap
import os
from typing import Annotated

import msgspec

from dfgen.errors import ManifestError
from dfgen.limits import DEFAULT, Limits
from dfgen.manifest.reading import reading

Id = int | str
_Size = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_Number = Annotated[float, msgspec.Meta(gt=-(2.0**31), lt=2.0**31)]


class CocoImage(msgspec.Struct, gc=False):
    """An image as the JSON has it; what else it has is passed over unread."""

    id: Id
    file_name: str
    width: _Size | None = None
    height: _Size | None = None


class CocoCategory(msgspec.Struct, gc=False):
    """A class as the JSON has it."""

    id: Id
    name: str


class CocoAnnotation(msgspec.Struct, gc=False):
    """A box, a caption or a person with key points."""

    image_id: Id
    category_id: Id | None = None
    bbox: tuple[float, float, float, float] | None = None
    iscrowd: int | bool = 0
    caption: str | None = None
    keypoints: list[_Number] | None = None


class CocoFile(msgspec.Struct, gc=False):
    """A whole file."""

    images: list[CocoImage]
    annotations: list[CocoAnnotation] = []
    categories: list[CocoCategory] = []


def read_document(path: str, limits: Limits = DEFAULT) -> CocoFile:
    """Read a JSON file."""
    bounded = reading(path, limits=limits, bound="file_bytes")
    with bounded, open(path, "rb") as file, _bytes(file.fileno()) as data:
        try:
            return msgspec.json.decode(data, type=CocoFile)
        except msgspec.ValidationError as error:
            raise ManifestError(
                f"{path} is JSON, but not as COCO has it: {error}. Expected "
                '{"images": [...], "annotations": [...], "categories": [...]}'
            ) from None
        except UnicodeDecodeError:
            raise ManifestError(f"{path}{_place(data, 'not UTF-8', _not_utf8(data))}") from None
        except msgspec.DecodeError as error:
            text, _, byte = str(error).removesuffix(")").partition(" (byte ")
            stop = int(byte) if byte.isdigit() else len(data)
            raise ManifestError(f"{path}{_place(data, text, stop)}") from None


def _bytes(descriptor: int) -> "mmap.mmap | memoryview":
    """Return the bytes of a file without a copy of them in memory; an empty one maps to nothing."""
    if os.fstat(descriptor).st_size == 0:
        return memoryview(b"")
    return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)


def _not_utf8(data: "mmap.mmap | memoryview") -> int:
    """Return where text of another encoding begins; msgspec counts from the start of a string."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError as error:
        return error.start
    return len(data)


def _place(data: "mmap.mmap | memoryview", reason: str, stop: int) -> str:
    """Return line and reason of broken JSON."""
    line = 1 + sum(
        bytes(data[at : min(at + 2**24, stop)]).count(b"\n") for at in range(0, stop, 2**24)
    )
    return f", line {line}: broken JSON, {reason} (byte {stop}). Mend the file, or fetch it again"
