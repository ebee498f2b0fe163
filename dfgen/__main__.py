"""`python -m dfgen`: the command `dfgen`."""

from dfgen.cli import app

app(prog_name="python -m dfgen")
