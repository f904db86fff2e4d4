"""The course's widgets: native HTML controls, drawn in the page, no kernel needed.

Each is an anywidget whose data travels in its state, so the same object works in Jupyter, on
Colab and on a static page.
"""

from tfcourse.widgets.architectures import ThreeArchitectures
from tfcourse.widgets.attention_triangle import AttentionTriangle
from tfcourse.widgets.four_moves import FourMoves
from tfcourse.widgets.next_word import NextWord
from tfcourse.widgets.norm_lab import NormLab
from tfcourse.widgets.prefix_problems import PrefixProblems
from tfcourse.widgets.residual_lab import ResidualLab
from tfcourse.widgets.stack_tracer import StackTracer

__all__ = [
    "AttentionTriangle",
    "FourMoves",
    "NextWord",
    "NormLab",
    "PrefixProblems",
    "ResidualLab",
    "StackTracer",
    "ThreeArchitectures",
]
