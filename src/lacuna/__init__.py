"""Lacuna: adapt a translation model to a domain with a searchable memory, and keep only what the model needs.

The public names are listed in ``__init__.pyi``. Each is imported on first use, so that ``import lacuna`` and
``lacuna --help`` stay fast.
"""

import lazy_loader

from lacuna.version import __version__ as __version__

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
