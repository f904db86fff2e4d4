"""Measurements of speed, memory and size; they print a table and assert nothing about time."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing is downloaded: all weights are random
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
