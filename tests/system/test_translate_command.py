"""``lacuna translate`` in a pipe: translations appear while the input is still open, and a closed output ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from commands import Refuse, Run
from made_up import make_pairs
from unit.models.tiny_models import Zoo

LACUNA = [sys.executable, "-m", "lacuna"]
SECONDS = 240  # far more than it takes, also on a busy machine


def translate(model: Path, *options: str) -> list[str]:
    return [*LACUNA, "translate", "--model", str(model), "--device", "cpu", "--beam", "2", "--threads", "1", *options]


def test_each_line_is_answered_before_the_next_is_written(model_folder: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        translate(model_folder, "--json"), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        watchdog = Timer(SECONDS, process.kill)  # without streaming, the first answer would never come
        watchdog.daemon = True
        watchdog.start()
        for text in ("das kleine haus", "", "der hund"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert set(json.loads(process.stdout.readline())) - {"flag"} == {"text", "score", "steps"}
        watchdog.cancel()
        process.stdin.close()
        assert process.stdout.read() == ""
        assert process.wait(SECONDS) == 0


@pytest.mark.posix
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_closed_output_ends_it_quietly(model_folder: Path, options: str) -> None:
    command = " ".join(translate(model_folder, *options.split()))
    script = f"yes 'das kleine haus' | ( {command}; echo $? >&2 ) | head -3"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert len(done.stdout.splitlines()) == 3
    *progress, code = done.stderr.splitlines()
    assert code == "141", done.stderr
    assert all(line.startswith("translate:") for line in progress), done.stderr


def test_a_file_gives_what_standard_input_gives_line_by_line(model_folder: Path, tmp_path: Path) -> None:
    lines = [pair.source for pair in make_pairs(100)] + ["", "ja\r", "zum schluss"]
    file = tmp_path / "in.txt"
    file.write_bytes("\n".join(lines).encode())  # the last line has no end
    command = translate(model_folder)
    named = subprocess.run([*command, str(file)], capture_output=True, timeout=SECONDS, check=True).stdout
    piped = subprocess.run(command, input=file.read_bytes(), capture_output=True, timeout=SECONDS, check=True).stdout
    assert named == piped
    assert named.count(b"\n") == len(lines)


@pytest.mark.posix
def test_an_endless_line_is_refused(model_folder: Path) -> None:
    script = f"tr '\\0' x < /dev/zero | {' '.join(translate(model_folder))}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    assert "standard input:1: the line is longer than" in done.stderr.splitlines()[-1]
    assert done.stdout == ""


def test_an_error_on_stderr_does_not_count_as_a_closed_output(model_folder: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        translate(model_folder, str(tmp_path / "none.txt")), capture_output=True, text=True, env=os.environ, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "none.txt: cannot be read" in done.stderr


def test_8_bit_weights_are_used_where_they_are_possible(zoo: Zoo, tmp_path: Path, run: Run, refuse: Refuse) -> None:
    (tmp_path / "in.txt").write_text("das kleine haus steht am see\n", encoding="utf-8")

    def score(kind: str, *options: str) -> float:
        rest = ["--model", str(zoo.folder(kind)), "--device", "cpu", "--json", *options]
        printed: float = json.loads(run(["translate", "in.txt", *rest], tmp_path))["score"]
        return printed

    by_default, rounded, exact = score("marian"), score("marian", "--int8"), score("marian", "--no-int8")
    assert by_default == rounded != exact
    assert rounded == pytest.approx(exact, abs=0.05)
    t5 = ("--languages", "de-en")
    assert score("t5", *t5) == score("t5", "--no-int8", *t5)
    line = refuse(["translate", "in.txt", "--model", str(zoo.folder("t5")), "--int8", *t5], tmp_path).line
    assert "cannot run with 8-bit weights here" in line
