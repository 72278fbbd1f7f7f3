"""``python -m lacuna`` is the ``lacuna`` command."""

from lacuna.cli.main import main

main()
