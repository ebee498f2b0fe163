"""How Sphinx builds the site: `make docs`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import dfgen

project = "dfgen"
release = dfgen.__version__
html_title = f"dfgen {release}"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "docstrings"]
nb_execution_mode = "off"  # `make notebooks` executes them
myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist"]
myst_heading_anchors = 3  # page.md#a-heading, as where the sources are read
default_role = "code"  # `name` in docstrings
autodoc_typehints = "none"  # the docstrings say what is taken
toc_object_entries_show_parents = "hide"
html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
