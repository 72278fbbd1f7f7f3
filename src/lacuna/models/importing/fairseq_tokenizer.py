"""The dictionaries and BPE codes of fairseq, spelled as the FSMT tokenizer of transformers wants them.

Fairseq marks a subword that goes on (``hau@@ s``), FSMT one that ends a word (``hau s</w>``); numbers stay the same.
Knows text files; nothing of weights.
"""

from __future__ import annotations

from pathlib import Path

from lacuna.errors import ModelError
from lacuna.files import write_json, write_text
from lacuna.records import Languages

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_CODE_FILES = ("bpecodes", "bpe.codes", "codes", "code")


def read_dictionary(path: Path) -> dict[str, int]:
    """Read ``token count`` lines; the four special tokens come first and are not in the file."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL)}
    for number, line in enumerate(_lines(path), start=1):
        token, space, count = line.rpartition(" ")
        if not space or not count.isdigit():
            raise ModelError(f"{path}:{number}: got {line[:40]!r} where a dictionary has a token and its count")
        spelled = token.removesuffix("@@") if token.endswith("@@") else f"{token}</w>"
        if spelled in vocabulary:
            raise ModelError(f"{path}:{number}: {token!r} is there twice; FSMT cannot number one token twice")
        vocabulary[spelled] = len(vocabulary)
    return vocabulary


def read_merges(folder: Path) -> list[str]:
    """Read the BPE codes: of fastBPE (``a b count``), or of subword-nmt from version 0.2 on."""
    path = next((folder / name for name in _CODE_FILES if (folder / name).is_file()), None)
    if path is None:
        raise ModelError(
            f"{folder}: has no BPE codes ({', '.join(_CODE_FILES)}); put the file there under one of these names. "
            "Models with a sentencepiece vocabulary cannot be imported: FSMT has BPE only"
        )
    lines = _lines(path)
    has_version = bool(lines) and lines[0].startswith("#version:")
    if has_version and lines[0].split()[-1] == "0.1":
        raise ModelError(f"{path}: subword-nmt codes of version 0.1 treat word ends otherwise than FSMT can")
    merges: dict[str, None] = {}  # where a merge is there twice, the first counts
    for number, line in enumerate(lines[has_version:], start=1 + has_version):
        parts = line.split(" ")
        counted = len(parts) == 3 and parts[2].isdigit()
        if not (counted or (has_version and len(parts) == 2)) or not all(parts):
            raise ModelError(
                f"{path}:{number}: got {line[:40]!r}; allowed are fastBPE's 'a b count', "
                "or 'a b' under subword-nmt's '#version: 0.2'"
            )
        merges[" ".join(parts[:2])] = None
    return list(merges)


def write_tokenizer(
    folder: Path, source: dict[str, int], target: dict[str, int], merges: list[str], languages: Languages
) -> None:
    """Write the files of an FSMT tokenizer."""
    write_json(folder / "vocab-src.json", source)
    write_json(folder / "vocab-tgt.json", target)
    write_text(folder / "merges.txt", "".join(f"{merge}\n" for merge in merges))
    settings = {"langs": [languages.source, languages.target], "tokenizer_class": "FSMTTokenizer"}
    write_json(folder / "tokenizer_config.json", settings)


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); put it beside the checkpoint") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path}: is not UTF-8 (byte {error.start}); it is damaged, or another file") from error
    # Not splitlines(): a dictionary may have a token such as U+2028, which ends a line only there.
    return [line.rstrip("\r") for line in text.removesuffix("\n").split("\n")]
