"""`df.dfgen`: looking at a frame in a word or two."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from dfgen.explore.chosen_rows import problems
from dfgen.explore.class_counts import balance, classes
from dfgen.explore.copy_pictures import show_duplicates, show_leaks
from dfgen.explore.file_sizes import sizes
from dfgen.explore.picture_grid import show
from dfgen.limits import Limits
from dfgen.samples.features.boxes import Boxes
from dfgen.samples.features.image import Image
from dfgen.samples.features.mask import Mask


@pd.api.extensions.register_dataframe_accessor("dfgen")
class FrameAccessor:
    """The methods of `df.dfgen`; each is a function of `dfgen.explore` too.

    Example:
        >>> import dfgen.explore  # doctest: +SKIP
        >>> df.dfgen.show(by="kind")
        >>> df.dfgen.classes()
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def show(
        self,
        n: int = 16,
        *,
        by: str | None = None,
        sort: str | None = None,
        boxes: str | Boxes | bool | None = None,
        masks: str | Mask | bool | None = None,
        predictions: pd.DataFrame | None = None,
        image: str | Image | None = None,
        seed: int = 0,
        root: str | None = None,
        limits: Limits | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Show some rows as pictures: see `dfgen.explore.show`."""
        return show(
            self._frame, n, by=by, sort=sort, boxes=boxes, masks=masks, predictions=predictions,
            image=image, seed=seed, root=root, limits=limits, storage_options=storage_options,
        )  # fmt: skip

    def classes(self, label: str | None = None) -> pd.DataFrame:
        """Count the rows of each class, in each split: see `dfgen.explore.classes`."""
        return classes(self._frame, label)

    def balance(self, label: str | None = None) -> Any:
        """Show how the classes are spread over each split: see `dfgen.explore.balance`."""
        return balance(self._frame, label)

    def sizes(self) -> Any:
        """Show how large the files are, and which are far from others: `dfgen.explore.sizes`."""
        return sizes(self._frame)

    def problems(self) -> pd.DataFrame:
        """Return the rows whose files cannot be used: see `dfgen.explore.problems`."""
        return problems(self._frame)

    def duplicates(
        self,
        n: int = 8,
        *,
        within: int | None = None,
        image: str | None = None,
        root: str | None = None,
        limits: Limits | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Show groups of copies, a row of pictures each: see `dfgen.explore.show_duplicates`."""
        return show_duplicates(
            self._frame, n, within=within, image=image, root=root, limits=limits,
            storage_options=storage_options,
        )  # fmt: skip

    def leaks(
        self,
        n: int = 8,
        *,
        within: int | None = None,
        image: str | None = None,
        root: str | None = None,
        limits: Limits | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Show pictures that stand in several splits: see `dfgen.explore.show_leaks`."""
        return show_leaks(
            self._frame, n, within=within, image=image, root=root, limits=limits,
            storage_options=storage_options,
        )  # fmt: skip
