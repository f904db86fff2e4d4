"""Make a virtual environment that stands in for Colab: its pins, and a notebook server.

    python tests/colab/make_env.py        # prints the folder of the environment

The folder is `.venv-colab`, or what the variable TFCOURSE_COLAB_ENV names; made once and again
when the pins or the project's dependencies have changed. It gets the torch version of the
environment that runs this script, since Colab's own build exists for Colab alone.
"""

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "tests" / "colab-constraints.txt"
# What runs and shows notebooks there; the versions come from the pins.
NOTEBOOK = ["notebook", "ipykernel", "nbclient", "nbconvert"]


def make_env() -> Path:
    """Return the environment's folder, made anew where it is missing or out of date."""
    folder = Path(os.environ.get("TFCOURSE_COLAB_ENV", ROOT / ".venv-colab")).resolve()
    torch_version = importlib.metadata.version("torch").split("+")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = hashlib.sha256(PINS.read_bytes())
    wanted.update(f"{ROOT} {sys.version} {torch_version} {project['dependencies']}".encode())
    stamp = folder / "made-from"
    if stamp.exists() and stamp.read_text() == wanted.hexdigest():
        return folder

    if folder.exists() and not (folder / "pyvenv.cfg").exists():
        raise SystemExit(f"{folder} is no virtual environment; name another TFCOURSE_COLAB_ENV")
    if folder.exists():
        shutil.rmtree(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin" / "python"
    # Where this environment got its CPU build through uv, the new one does too.
    uv = Path(sys.executable).with_name("uv")
    if uv.exists():
        cpu = ["--torch-backend=cpu", f"torch=={torch_version}"]
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *cpu], check=True)
    pip = [python, "-m", "pip", "install", "-q", "-c", PINS]
    subprocess.run([*pip, f"torch=={torch_version}", "-e", ROOT, *NOTEBOOK], check=True)
    stamp.write_text(wanted.hexdigest())
    return folder


if __name__ == "__main__":
    print(make_env())
