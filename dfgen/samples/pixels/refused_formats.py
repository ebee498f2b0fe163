"""Formats known by their first bytes, and not opened: one draws, runs a program, or is no image."""

import re

_DRAWN = "which draws instead of holding pixels: convert it to PNG"
_RAW = "the raw file of a camera: develop it, and save it as PNG or TIFF"
_VIDEO = "a video: save its frames as images"

_REFUSED = [
    (rb"%!PS|\xc5\xd0\xd3\xc6", f"an EPS or PostScript file, {_DRAWN}"),
    (rb"%PDF", f"a PDF file, {_DRAWN}"),
    (rb"\xd7\xcd\xc6\x9a|[\x01\x02]\x00\t\x00\x00[\x01\x03]", f"a WMF file, {_DRAWN}"),
    (rb"\x01\x00\x00\x00[\x58-\xff]\x00\x00\x00", f"an EMF file, {_DRAWN}"),
    (rb"(?i)\s*<(svg|!doctype svg)", f"an SVG file, {_DRAWN}"),
    (rb"(\xef\xbb\xbf)?\s*<\?xml", f"an XML file; if it is an SVG, {_DRAWN}"),
    (
        rb"(?i)\s*<(!doctype html|html|head)",
        "a page of HTML: the image was not what was downloaded",
    ),
    (rb"II\*\x00....CR|FUJIFILMCCD-RAW|IIR[OS]|IIU\x00", _RAW),
    (rb"\xff\x0a|\x00\x00\x00\x0cJXL ", "a JPEG XL file, which is not opened: convert it to PNG"),
    (rb"v/1\x01", "an OpenEXR file, which is not opened: save it as a TIFF of floats"),
    (rb"#\?RADIANCE", "a Radiance HDR file, which is not opened: save it as a TIFF of floats"),
    (rb"8BPS\x00\x02", "a PSB file (large Photoshop), which is not opened: save it as PNG"),
    (rb"gimp xcf", "a GIMP file, which is not opened: export it as PNG"),
    (rb"\x8a[MJ]NG", "an MNG or JNG file, which is not opened: convert it to PNG"),
    (rb"P7\n", "a PAM file, which is not opened: convert it to PNG"),
    (rb"RIFF....AVI |....ftyp(isom|iso2|mp4.|avc1|qt  |M4V )|\x1aE\xdf\xa3", _VIDEO),
    (rb"PK\x03\x04|\x1f\x8b|Rar!|7z\xbc\xaf", "an archive: unpack it first"),
]

_REFUSALS = [(re.compile(begins, re.DOTALL).match, text) for begins, text in _REFUSED]


def why_refused(head: bytes) -> str | None:
    """Return why a file that begins like this is not opened, where that is known."""
    return next((text for matches, text in _REFUSALS if matches(head)), None)
