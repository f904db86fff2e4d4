# Set-up for Colab. Where the package `tfcourse` is installed already, this does nothing.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("tfcourse") is None:
    source = "tfcourse @ git+https://github.com/tfcourse/tfcourse@main"
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", source], check=True)
    importlib.invalidate_caches()
    import torch

    if not torch.cuda.is_available():
        print("No GPU is attached: everything runs, but slower.")
        print("To attach one: Runtime > Change runtime type.")
