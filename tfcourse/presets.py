"""Settings that belong together: a model and how to train it."""

from __future__ import annotations

from typing import Any

PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # Within 0.02 nats of the email corpus's floor in minutes on two CPU cores. Small batches give
    # more steps per token, a narrow feed-forward layer cheaper ones.
    "tiny": {
        "model": {"d_model": 128, "n_layers": 4, "n_heads": 4, "d_ff": 256, "position": "rope"},
        "train": {"steps": 2800, "batch_size": 16, "lr": 3e-3, "beta2": 0.98, "warmup": 50},
    },
    # The other architectures, each on its own data set.
    "masked": {
        "model": {"d_model": 128, "n_layers": 4, "n_heads": 4, "d_ff": 256, "position": "rope"},
        "train": {
            "steps": 1500,
            "batch_size": 32,
            "lr": 2e-3,
            "beta2": 0.98,
            "warmup": 100,
            "optimizer": "muon",
        },
    },
    "digits": {
        "model": {
            "d_model": 64,
            "n_layers": 4,
            "n_heads": 4,
            "patch_size": 2,
            "pooling": "mean",
            "head_bias": True,
        },
        # With AdamW alone the loss stood still for many epochs.
        "train": {
            "steps": 1500,
            "batch_size": 64,
            "lr": 2e-3,
            "warmup": 100,
            "optimizer": "muon",
        },
    },
    "dates": {
        "model": {"d_model": 128, "n_layers": 2, "n_heads": 4, "d_ff": 256},
        "train": {
            "steps": 1500,
            "batch_size": 64,
            "lr": 2e-3,
            "beta2": 0.98,
            "warmup": 100,
            "optimizer": "muon",
        },
    },
    # Wider and deeper, for a GPU; its rates are those of a first guess.
    "base": {
        "model": {"d_model": 384, "n_layers": 6, "n_heads": 6, "position": "rope"},
        "train": {"steps": 3000, "batch_size": 128, "lr": 1e-3, "warmup": 200},
    },
}
