"""Set the address of the project's repository everywhere: book, badges, Colab cells, files.

`_config.yml` holds the address and the branch or tag that Colab links and set-up cells
use. This reads the present ones there and replaces them in every text file of the project.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
REF = re.compile(r"[\w.-]+(/[\w.-]+)*")
# Notebooks keep their addresses in JSON strings, so plain text replacement serves them too.
SUFFIXES = {".cff", ".ipynb", ".md", ".py", ".toml", ".txt", ".yml"}


def current(root: Path) -> tuple[str, str, str]:
    """Read owner, name and ref from `_config.yml`."""
    config = (root / "_config.yml").read_text(encoding="utf-8")
    match = re.search(rf"^repository:\n  url: {ADDRESS.pattern}\n  branch: (\S+)$", config, re.M)
    if not match:
        raise ValueError("_config.yml: `repository:` needs `url:` and then `branch:` below it")
    return match[1], match[2], match[3]


def rewrite(text: str, old: tuple[str, str, str], new: tuple[str, str, str]) -> str:
    """Replace the repository's address, its pages' address and the ref in links to it."""
    (owner, name, ref), (new_owner, new_name, new_ref) = old, new
    end = r"(?![\w-]|\.(?!git\b)\w)"  # the name is not longer: no other repository's
    o, n, r = re.escape(owner), re.escape(name), re.escape(ref)
    text = re.sub(
        rf"(google\.com/github/){o}/{n}/blob/{r}/",
        rf"\g<1>{new_owner}/{new_name}/blob/{new_ref}/",
        text,
    )
    text = re.sub(
        rf"(git\+https://github\.com/){o}/{n}@{r}{end}",
        rf"\g<1>{new_owner}/{new_name}@{new_ref}",
        text,
    )
    text = re.sub(rf"(github\.com/){o}/{n}{end}", rf"\g<1>{new_owner}/{new_name}", text)
    return re.sub(rf"\b{o}\.github\.io/{n}{end}", f"{new_owner}.github.io/{new_name}", text)


def files(root: Path) -> list[Path]:
    """List the project's text files: those that git tracks or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    paths = (root / name for name in names.split("\0") if Path(name).suffix in SUFFIXES)
    return [path for path in paths if path.is_file()]


def _decode(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


def main(arguments: list[str], root: Path = ROOT) -> int:
    url, ref = [*arguments, "", ""][:2]
    match, ref = ADDRESS.fullmatch(url), ref or "main"
    if not match:
        print(f"URL={url!r} is no GitHub repository; give https://github.com/<you>/<fork>")
        return 2
    if not REF.fullmatch(ref):
        print(f"REF={ref!r} is no branch or tag; give main or v0.1.0")
        return 2
    old, new = current(root), (match[1], match[2], ref)
    try:  # all are read before one is written; as bytes, so that line ends stay what they are
        texts = {path: _decode(path) for path in files(root)}
    except ValueError as error:
        print(error)
        return 2
    changed = 0
    for path, text in texts.items():
        rewritten = rewrite(text, old, new)
        if path.name == "_config.yml":
            branch = rf"(?m)^(  branch: ){re.escape(old[2])}(?=\r?$)"
            rewritten = re.sub(branch, rf"\g<1>{ref}", rewritten, count=1)
        if rewritten != text:
            unfinished = path.with_name(path.name + ".new")
            unfinished.write_text(rewritten, encoding="utf-8", newline="")
            os.replace(unfinished, path)
            changed += 1
    print(f"{url} at {ref}: {changed} files changed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
