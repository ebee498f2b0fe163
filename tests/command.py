"""The command line, within this process."""

from subprocess import CompletedProcess

from typer.testing import CliRunner

from dfgen.cli import app


def run(*arguments):
    """Run the command as a process would, and return what that would."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)
