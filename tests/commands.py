"""Running ``lacuna`` where it must succeed; :mod:`bad_input` has the opposite."""

from __future__ import annotations

import pytest

from lacuna.cli.main import main


def run_command(arguments: list[str], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> str:
    """Run a command in this process; return what it printed on stdout."""
    monkeypatch.setattr("sys.argv", ["lacuna", *arguments])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        main()
    out, err = capfd.readouterr()
    assert ended.value.code == 0, err
    return out
