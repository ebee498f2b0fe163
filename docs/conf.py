"""How Sphinx builds the site: `make docs`."""

import dfgen

project = "dfgen"
release = dfgen.__version__
html_title = f"dfgen {release}"
extensions = ["myst_nb"]
nb_execution_mode = "off"  # `make notebooks` executes them
myst_heading_anchors = 3  # page.md#a-heading, as where the sources are read
html_theme = "pydata_sphinx_theme"
html_show_sourcelink = False
