"""dfgen feeds Keras models from a pandas DataFrame.

Names are resolved on first use, so that `import dfgen` loads neither pandas nor Keras. Those that
there are, type checkers, editors and this module read in `__init__.pyi`.
"""

from importlib import import_module

_STUB = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()  # of a zip file too
_LINES = [line.split() for line in _STUB.splitlines() if line.startswith("from ")]

_HOME = {name: module for _, module, _, name, *_ in _LINES}
"""Public name -> the module that has it."""

_ELSEWHERE = {
    'dfgen.Sequence(df, x="path", y="label") feeds a frame to fit': (
        "DataFrameIterator", "DataGenerator", "DataLoader", "Dataset", "FrameSequence", "Generator",
        "ImageDataLoaders", "ImageDataset", "Loader", "PyDataset",
        "flow_from_dataframe", "from_dataframe", "from_df", "from_pandas", "generator",
        "load_dataset",
    ),
    'dfgen.build_manifest("imgs", pattern="{kind}/{id}.jpg") makes the frame of a folder': (
        "ImageFolder", "audio_dataset_from_directory", "flow_from_directory", "from_directory",
        "from_folder", "image_dataset_from_directory",
    ),
    'pandas reads it: dfgen.Sequence(pd.read_csv("labels.csv"), ...)': ("from_csv", "read_csv"),
    "dfgen.split(df, ...) makes a column of splits": ("random_split", "train_test_split"),
}  # fmt: skip
"""Public name -> names that other libraries have for it."""

__version__ = "0.1.0"
__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    here = "".join(f": {what}" for what, names in _ELSEWHERE.items() if name in names)
    raise AttributeError(f"module 'dfgen' has no attribute {name!r}{here}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
