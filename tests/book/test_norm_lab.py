"""Chapter 02's widget: what the page computes is what `tfcourse.norms` computes."""

from __future__ import annotations

import pytest
import torch

from tfcourse.norms import LayerNorm, RMSNorm

PAGE = "chapters/02_norms.html"
POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


def number(text: str) -> float:
    """Read a number as the page writes it: 0.5, −3, 1.2·10⁻⁵, 10⁻⁶."""
    if text == "not a number":
        return float("nan")
    text = text.translate(POWERS)
    mantissa, _, exponent = text.rpartition("·10") if "·10" in text else ("1", "", "")
    if not exponent and text.startswith(("10-", "-10-")):
        mantissa, exponent = ("-1" if text[0] == "-" else "1"), text.split("10", 1)[1]
    return float(mantissa) * 10 ** int(exponent) if exponent else float(text)


def table(widget) -> dict[str, list[float]]:
    rows = widget.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.textContent))"
    )
    return {name: [number(v) for v in values if v] for name, *values in rows}


def expected(x: list[float], eps: float, gamma: list[float], beta: list[float]) -> dict:
    """Compute the table with the course's norms, in float64."""
    vector = torch.tensor(x, dtype=torch.float64)
    layer, rms = LayerNorm(len(x), eps).double(), RMSNorm(len(x), eps).double()
    divided = layer(vector).tolist(), rms(vector).tolist()
    layer.weight.data, layer.bias.data = torch.tensor(gamma).double(), torch.tensor(beta).double()
    rms.weight.data = torch.tensor(gamma).double()
    mean, variance = vector.mean(), vector.var(correction=0)
    square = vector.pow(2).mean()
    return {
        "x": x,
        "LayerNorm: mean": [float(mean)],
        "LayerNorm: minus the mean": (vector - mean).tolist(),
        "LayerNorm: variance": [float(variance)],
        "LayerNorm: divisor": [float((variance + eps).sqrt())],
        "LayerNorm: divided": divided[0],
        "LayerNorm: times γ, plus β": layer(vector).tolist(),
        "RMSNorm: mean square": [float(square)],
        "RMSNorm: divisor": [float((square + eps).sqrt())],
        "RMSNorm: divided": divided[1],
        "RMSNorm: times γ": rms(vector).tolist(),
    }


def agree(widget, *vector) -> None:
    """Four significant digits are shown; 1e-3 allows for their rounding."""
    shown, computed = table(widget), expected(*vector)
    assert list(shown) == list(computed)
    for name, values in computed.items():
        assert shown[name] == pytest.approx(values, rel=1e-3, abs=1e-9), name


@pytest.fixture
def lab(visit):
    page = visit("http")
    page.open(PAGE)
    widget = page.page.locator(".tfcourse-widget").filter(has_text="after each norm")
    widget.locator("summary").click()
    return widget


def fill(widget, letter: str, values: list[float]) -> None:
    for j, value in enumerate(values, start=1):
        widget.get_by_label(f"{letter}, feature {j}").fill(str(value))


def test_it_starts_with_the_example_of_the_text(lab):
    """Catches: another start than the one that the chapter computes by hand."""
    agree(lab, [1.0, 3.0], 1.0, [1.0, 1.0], [0.0, 0.0])
    said = lab.locator("[aria-live]").inner_text()
    assert "[−0.7071, 0.7071]" in said and "[0.4082, 1.225]" in said


def test_edited_numbers_are_computed_as_the_package_does(lab):
    """Catches: the sample variance, ε outside the root, β in RMSNorm, γ and β exchanged."""
    lab.locator("select").nth(0).select_option(label="four features")
    agree(lab, [2.0, 0.0, 5.0, 1.0], 1e-5, [1.0] * 4, [0.0] * 4)
    for x, gamma, beta, eps in (
        ([0.5, -1.25, 3.0, 0.75], [2.0, -1.0, 0.5, 1.0], [0.25, 0.0, -3.0, 1.0], "0.001"),
        ([4000.0, 4001.0, 4002.5, 3999.0], [1.0] * 4, [0.0] * 4, "10⁻⁵"),
        ([0.0001, -0.0002, 0.0, 0.0003], [1.0] * 4, [0.5] * 4, "10⁻⁶"),
    ):
        fill(lab, "x", x)
        fill(lab, "γ", gamma)
        fill(lab, "β", beta)
        lab.locator("select").nth(1).select_option(label=eps)
        agree(lab, x, number(eps), gamma, beta)


def test_every_example_is_computed_as_the_package_does(lab):
    """Catches: an example whose γ or ε is left over from the one before."""
    menu = lab.locator("select").nth(0)
    names = menu.locator("option").all_inner_texts()[:-1]
    epsilon = lab.locator("select").nth(1)
    for name in names:
        menu.select_option(label=name)
        if "ε = 0" in name:
            continue
        x = table(lab)["x"]
        eps = number(epsilon.evaluate("e => e.selectedOptions[0].textContent"))
        agree(lab, x, eps, [1.0] * len(x), [0.0] * len(x))


def test_without_epsilon_a_constant_vector_is_not_a_number(lab):
    """Catches: a guard against the 0/0 that the example is there to show."""
    lab.locator("select").nth(0).select_option(label="constant, ε = 0")
    assert "Zero divided by zero" in lab.locator("[aria-live]").inner_text()
    shown = table(lab)
    assert all(v != v for v in shown["LayerNorm: divided"])
    assert shown["RMSNorm: divided"] == [1.0] * 4


def test_the_three_buttons_move_x_and_stop_at_a_million(lab):
    """Catches: 0.1 · 10 shown as 0.9999; a number that runs off the scale."""
    for name in ("Multiply x by 10", "Add 5 to x", "Divide x by 10"):
        lab.get_by_role("button", name=name).click()
    assert table(lab)["x"] == [1.5, 3.5]
    button = lab.get_by_role("button", name="Multiply x by 10")
    for _ in range(9):
        button.click(force=True)  # it says that it is off, and can still be pressed
    assert table(lab)["x"] == [150_000.0, 350_000.0]
    assert button.get_attribute("aria-disabled") == "true"


def test_arrow_keys_step_and_an_empty_field_changes_nothing(lab):
    """Catches: a field that cannot be cleared to type a new number; arrows that do nothing."""
    field = lab.get_by_label("x, feature 2")
    field.press("ArrowUp")
    assert table(lab)["x"] == [1.0, 4.0]
    field.fill("")
    assert table(lab)["x"] == [1.0, 4.0] and field.input_value() == ""
    field.press_sequentially("-2.5")
    assert table(lab)["x"] == [1.0, -2.5]


def test_a_field_that_was_left_shows_what_is_computed_with(lab):
    """Catches: a number beyond the limit that stays in the field while another one is used, and
    nothing that says so.
    """
    field = lab.get_by_label("x, feature 1")
    field.fill("12345678")
    says = "from −1,000,000 to 1,000,000. Until then this feature of x stays 1."
    assert says in lab.locator("[aria-live]").inner_text()
    field.blur()
    assert "Type a number" not in lab.locator("[aria-live]").inner_text()
    assert table(lab)["x"] == [float(field.input_value()), 3.0] == [1.0, 3.0]
