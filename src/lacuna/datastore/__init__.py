"""The store: the keys, values and predictions of a model for all target tokens of a corpus. Does not need torch.

The public names are listed in ``__init__.pyi``. Each is imported on first use: opening a store needs nothing of what
builds or verifies one.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
