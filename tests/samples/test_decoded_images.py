"""Image(decode=): pixels by a function of the user's, resized, scaled and cropped as all others."""

import io

import numpy as np
import pandas as pd
import pydicom
import pytest
import tifffile
from messages import message_of
from pydicom.dataset import FileDataset, FileMetaDataset
from pydicom.pixels import apply_rescale
from pydicom.uid import ExplicitVRLittleEndian, SecondaryCaptureImageStorage

import dfgen
from dfgen.errors import DecodeError


def scan(data):
    """Return the pixels of a DICOM file, in Hounsfield units."""
    file = pydicom.dcmread(io.BytesIO(data))
    return apply_rescale(file.pixel_array, file)


def bands(data):
    """Return the bands of a TIFF file, last."""
    return np.moveaxis(tifffile.imread(io.BytesIO(data)), 0, -1)


def write_dicom(path, pixels):
    meta = FileMetaDataset()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = "1.2.3"
    file = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    file.SOPClassUID, file.SOPInstanceUID = SecondaryCaptureImageStorage, "1.2.3"
    file.Rows, file.Columns = pixels.shape
    file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
    file.BitsAllocated = file.BitsStored = 16
    file.HighBit, file.PixelRepresentation = 15, 1
    file.RescaleSlope, file.RescaleIntercept = 2, -1000
    file.PixelData = pixels.astype("<i2").tobytes()
    file.save_as(path, enforce_file_format=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Scans of -100 and twice their row, and tiles whose 13 bands hold 100 times their number."""
    folder = tmp_path_factory.mktemp("scans")
    for row in range(6):
        write_dicom(folder / f"{row}.dcm", np.full((8 + row, 6), row + 450))
        tile = np.repeat(100 * np.arange(13, dtype=np.uint16), 8 * (6 + row)).reshape(13, 8, -1)
        tifffile.imwrite(folder / f"{row}.tif", tile, photometric="minisblack")
    return folder


def frame(suffix):
    paths = [f"{row}.{suffix}" for row in range(6)]
    return pd.DataFrame({"id": range(6), "path": paths, "label": [0, 1] * 3})


@pytest.mark.parametrize("options", [{"workers": 0}, {"workers": 1, "use_multiprocessing": True}])
def test_resized_scans_below_a_root_keep_their_values(folder, options):
    x = dfgen.Image(size=(4, 4), color_mode="grayscale", dtype="float32", decode=scan)
    with dfgen.Sequence(frame("dcm"), x, y="label", root=folder, shuffle=False, **options) as seq:
        images, _ = seq[0]
    assert images.shape == (6, 4, 4, 1) and images.dtype == np.float32
    held = np.broadcast_to(2 * np.arange(6)[:, None, None, None] - 100, images.shape)
    np.testing.assert_allclose(images, held, rtol=1e-6)


def test_bands_of_satellites_are_cropped_and_flipped_together(folder):
    flip = {"crop": "random", "load_size": (7, 7), "flip": "horizontal"}
    x = dfgen.Image(size=(5, 5), dtype="uint16", color_mode=13, decode=bands, **flip)
    with dfgen.Sequence(frame("tif"), x, y="label", root=folder) as seq:
        images, _ = seq[0]
        assert seq.element_spec[0].shape[-1] == 13
    assert (images == 100 * np.arange(13, dtype=np.uint16)).all() and images.shape == (6, 5, 5, 13)


def test_wrong_results_name_row_file_and_remedy(folder):
    table = frame("tif")

    def message(returned, **options):
        def odd(data):
            return returned

        x = dfgen.Image(size=(4, 4), decode=odd, **options)
        with dfgen.Sequence(table, x, y="label", root=folder, shuffle=False, workers=0) as seq:
            return message_of(DecodeError, lambda: seq[0]).rpartition("<locals>.")[2]

    assert "(4, 4, 5)" in message(np.zeros((4, 4, 5), np.uint8))
    assert "5" in message(np.zeros((4, 4, 3), np.uint8), color_mode=5)
    assert message(np.zeros((4, 4), np.uint16)).partition("uint16: ")[1]
    assert "expected numbers" in message({})


def test_decode_error_names_row_and_can_be_skipped(folder, tmp_path):
    table = frame("dcm")
    (tmp_path / "broken.dcm").write_bytes(b"no DICOM")
    table["path"] = [str(tmp_path / "broken.dcm"), *(f"{folder}/{row}.dcm" for row in range(1, 6))]
    x = dfgen.Image(size=(4, 4), color_mode="grayscale", dtype="float32", decode=scan)
    with dfgen.Sequence(table, x, y="label", shuffle=False) as seq:
        said = message_of(DecodeError, lambda: seq[0])
    assert said.startswith(f"row id=0, path='{tmp_path}/broken.dcm': Image('path'): scan raised ")
    with dfgen.Sequence(table, x, y="label", shuffle=False, on_error="skip") as seq:
        assert seq[0][2].tolist() == pytest.approx([0, *[6 / 5] * 5])


def test_path_function_gets_path_below_the_root(folder):
    x = dfgen.Column("path", lambda path: tifffile.imread(path).shape[0])
    with dfgen.Sequence(frame("tif"), x, y="label", root=folder) as seq:
        assert (seq[0][0] == 13).all()
