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
html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "navbar_align": "left",
    "navigation_depth": 1,  # a deeper list folds, by a button that has no name
    "show_toc_level": 2,
    "footer_end": [],
}
of_no_section = "index", "start", "glossary", "troubleshooting"
html_sidebars = {name: [] for name in of_no_section}
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_show_sourcelink = False
