"""Loose files on a mounted file system."""

from dataclasses import dataclass

from dfgen.errors import DecodeError, MissingFileError


@dataclass(frozen=True)
class Files:
    """Reads whole files by path."""

    def read(self, path: str) -> bytes:
        """Return the bytes of one file.

        Raises:
            MissingFileError: there is no such file.
            DecodeError: the file is empty, or cannot be read.
        """
        try:
            with open(path, "rb", buffering=0) as file:
                data = file.readall()
        except (FileNotFoundError, NotADirectoryError):
            raise MissingFileError("the file does not exist") from None
        except (OSError, ValueError) as error:  # ValueError: a path with NUL
            reason = getattr(error, "strerror", None) or error
            raise DecodeError(f"the file cannot be read: {reason}") from error
        if not data:
            raise DecodeError("the file is empty (0 bytes)")
        return data
