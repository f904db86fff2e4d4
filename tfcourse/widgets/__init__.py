"""The course's widgets: native HTML controls, drawn in the page, no kernel needed.

Each is an anywidget whose data travels in its state, so the same object works in Jupyter, on
Colab and on a static page.
"""

from tfcourse.widgets.norm_lab import NormLab
from tfcourse.widgets.prefix_problems import PrefixProblems
from tfcourse.widgets.residual_lab import ResidualLab

__all__ = ["NormLab", "PrefixProblems", "ResidualLab"]
