"""Names that the modules of callbacks and devices still import."""


def lacks(name: str) -> bool:
    """Whether this Keras lacks a private part."""
    return False


def refuse_if_plain(callback: str) -> None:
    """Accept every Keras."""
