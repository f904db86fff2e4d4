"""The course's widgets: native HTML controls, drawn in the page, no kernel needed.

Each is an anywidget whose data travels in its state, so the same object works in Jupyter, on
Colab and on a static page.
"""

from tfcourse.widgets.architectures import ThreeArchitectures
from tfcourse.widgets.prefix_problems import PrefixProblems
from tfcourse.widgets.residual_lab import ResidualLab

__all__ = ["PrefixProblems", "ResidualLab", "ThreeArchitectures"]
