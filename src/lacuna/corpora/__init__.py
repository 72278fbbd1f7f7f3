"""Parallel text: read, clean, split, write and fetch it.

The public names are listed in ``__init__.pyi``. Each is imported on first use: a translation reads no corpus.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
