"""Looking at data: `df.dfgen.show()` and its like, the plain functions behind them, and reports.

`import dfgen.explore` gives every DataFrame the accessor `df.dfgen`. Pictures are drawn by
matplotlib, of the extra `explore`; it is loaded when the first is asked for.
"""

from dfgen.explore.accessor import FrameAccessor as FrameAccessor
from dfgen.explore.batch_pictures import batch as batch
from dfgen.explore.batch_pictures import draws as draws
from dfgen.explore.chosen_rows import problems as problems
from dfgen.explore.class_counts import balance as balance
from dfgen.explore.class_counts import classes as classes
from dfgen.explore.file_sizes import sizes as sizes
from dfgen.explore.mistakes import Mistakes as Mistakes
from dfgen.explore.mistakes import mistakes as mistakes
from dfgen.explore.picture_grid import show as show
from dfgen.explore.picture_grid import show_duplicates as show_duplicates
from dfgen.explore.picture_grid import show_leaks as show_leaks
from dfgen.explore.report_file import report as report
from dfgen.explore.thumbnails import Thumbnail as Thumbnail
from dfgen.explore.thumbnails import thumbnails as thumbnails
