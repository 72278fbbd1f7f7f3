"""Memories: search, read, edit and look into them, in a folder or in Milvus.

The public names are listed in ``__init__.pyi``. Each is imported on first use: a translation without memories needs no
backend.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
