"""The knowledge margin: the number of an entry's nearest neighbors that are known before the first unknown one.

The public names are listed in ``__init__.pyi``. Each is imported on first use: reading margins does not need torch,
measuring them does.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
