"""Where bytes are: local files, archives, object stores, array files, and slots of pixels."""
