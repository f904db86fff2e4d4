"""The project under Colab's pins: it resolves, its chapters run, their widgets move.

The environment for the second part is made by make_env.py and kept; its tests are marked
`accept`, since making it and running two chapters takes minutes.
"""

import importlib.metadata
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from make_env import PINS, ROOT, make_env
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from playwright.sync_api import Page, sync_playwright

from tfcourse.grading.release import master_path, student_name
from tfcourse.grading.sets import SETS, load_set

CHAPTERS = sorted(path.stem for path in (ROOT / "chapters").glob("[0-9]*.ipynb"))
# Colab's own torch; a CPU build stands in for it here, so it is not among the pins.
COLAB_TORCH = "2.11.0"
# What a resolution may bring beside the pins: our own additions to Colab (jupyterquiz, jaxtyping
# with its wadler-lindig), jedi, which Colab's IPython asks for and lacks, and what only the
# stand-in for Colab wants: its torch a newer setuptools, its Python below 3.12 overrides.
BESIDE_THE_PINS = {
    *("tfcourse", "jaxtyping", "wadler-lindig", "jupyterquiz", "jedi"),
    *("torch", "setuptools", "overrides"),
}


def pins() -> dict[str, str]:
    lines = PINS.read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pairs}


def dependencies() -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [Requirement(text) for text in project["dependencies"]]


def test_every_requirement_accepts_the_version_that_colab_has():
    """Catches: `numpy>=2.2` or `torch>=2.12` among the dependencies."""
    preinstalled = {**pins(), "torch": COLAB_TORCH}
    for requirement in dependencies():
        version = preinstalled.get(canonicalize_name(requirement.name))
        assert version is None or version in requirement.specifier, (
            f"{requirement} would replace Colab's {requirement.name} {version}; lower it"
        )


@pytest.mark.slow
@pytest.mark.nohook
def test_the_dependencies_resolve_without_changing_one_pin(tmp_path):
    """Catches: `anywidget>=0.10`, or `typeguard`, which Colab lacks, among the dependencies."""
    report = tmp_path / "report.json"
    torch = f"torch=={importlib.metadata.version('torch').split('+')[0]}"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q"]
    result = subprocess.run(
        [*command, "--report", report, "-c", PINS, ROOT, torch], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr[-2000:]
    installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    resolved = {
        canonicalize_name(i["metadata"]["name"]): i["metadata"]["version"] for i in installed
    }
    gpu = {name for name in resolved if re.match(r"(nvidia|cuda)-|triton$", name)}
    changed = {n: v for n, v in resolved.items() if n in pins() and v != pins()[n]}
    assert changed == {}
    assert resolved.keys() - pins().keys() - gpu - BESIDE_THE_PINS == set()


@pytest.fixture(scope="module")
def colab_python() -> Path:
    return make_env() / "bin" / "python"


@pytest.fixture(scope="module")
def notebook_server(colab_python, tmp_path_factory):
    """Serve copies of the chapters with notebook 6.5.7; gives (address, folder)."""
    folder = tmp_path_factory.mktemp("notebooks")
    shutil.copytree(ROOT / "chapters", folder, dirs_exist_ok=True)
    config = tmp_path_factory.mktemp("jupyter")
    options = ["--no-browser", "--ip=127.0.0.1", f"--port={free_port()}", "--NotebookApp.token="]
    if os.name == "posix" and os.geteuid() == 0:
        options.append("--allow-root")
    with (config / "log").open("w") as log:
        server = subprocess.Popen(
            [colab_python, "-m", "notebook", *options],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "JUPYTER_CONFIG_DIR": str(config),
                "JUPYTER_RUNTIME_DIR": str(config),
            },
        )
    try:
        yield wait_for_address(server, config), folder
    finally:
        server.terminate()
        try:
            server.wait(60)  # it ends its kernels first
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for_address(server: subprocess.Popen, config: Path) -> str:
    for _ in range(300):
        for info in config.glob("nbserver-*.json"):
            return json.loads(info.read_text(encoding="utf-8"))["url"]
        try:
            server.wait(0.2)
            break
        except subprocess.TimeoutExpired:
            continue
    raise RuntimeError(f"the notebook server did not start: {(config / 'log').read_text()[-2000:]}")


@pytest.mark.accept
@pytest.mark.nohook
@pytest.mark.timeout(1200)
def test_colab_pins_are_what_the_environment_has(colab_python):
    """Catches: an environment that was made without the constraints file."""
    listed = subprocess.check_output([colab_python, "-m", "pip", "list", "--format=json"])
    has = {canonicalize_name(i["name"]): i["version"] for i in json.loads(listed)}
    assert {n: v for n, v in pins().items() if n in has and has[n] != v} == {}
    assert has["notebook"] == "6.5.7"
    assert has["ipywidgets"] == "7.7.1"


@pytest.mark.accept
@pytest.mark.nohook
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_runs_in_notebook_6_and_its_widget_moves(chapter, notebook_server):
    """Catches: an ipywidgets 8 or anywidget 0.11 feature in a chapter or a widget.

    Runs every cell in the classic notebook; no output may be an error. Then each control of each
    widget is used, by keyboard where it is a slider, and must change the sentence that says what
    is shown; and the kernel must hear of it.
    """
    address, _ = notebook_server
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        open_notebook(page, f"{address}notebooks/{chapter}.ipynb")
        run_all_cells(page)
        assert page.locator(".output_error").all_inner_texts() == []
        widgets = page.locator(".tfcourse-widget")
        widgets.first.wait_for()
        for widget in widgets.all():
            move_every_control(page, widget)
        assert errors == []
        browser.close()


@pytest.mark.slow
@pytest.mark.nohook
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "number", [pytest.param(n, marks=[] if n == "01" else pytest.mark.accept) for n in SETS]
)
def test_a_set_of_exercises_runs_from_top_to_bottom(number, colab_python, tmp_path):
    """The student's notebook, where every check says what is missing, and the solutions.

    Catches: an import that Colab lacks; a question's cell without its check.
    """
    ids = [question.id for question in load_set(number)]
    for notebook, sign in (
        (ROOT / "chapters" / "exercises" / student_name(number), "✗"),
        (master_path(number, ROOT / "exercises"), "✓"),
    ):
        done = tmp_path / "done.ipynb"
        command = [colab_python, "-m", "nbconvert", "--to", "notebook", "--execute", notebook]
        subprocess.run([*command, "--output", done], check=True)
        cells = json.loads(done.read_text(encoding="utf-8"))["cells"]
        outputs = [o for c in cells if c["cell_type"] == "code" for o in c["outputs"]]
        printed = "".join("".join(o["text"]) for o in outputs if o.get("name") == "stdout")
        assert re.findall(rf"^{sign} ([\w.]+):", printed, re.M) == ids, printed


def open_notebook(page: Page, address: str) -> None:
    """Open a notebook and wait until the classic notebook's widget manager has settled.

    On loading it asks the kernel for its widgets and draws all outputs anew when the answer
    comes; cells that run meanwhile would lose their widgets.
    """
    answers: list[str] = []

    def listen(socket) -> None:
        socket.on("framereceived", lambda data: answers.append(str(data)))

    page.on("websocket", listen)
    page.goto(address)
    for _ in range(900):
        page.wait_for_timeout(200)
        # The second is the answer of a kernel that has not imported ipywidgets yet.
        if any("update_states" in a or "comm_info_reply" in a for a in answers):
            page.wait_for_timeout(2000)  # for the drawing
            return
    raise RuntimeError("the widget manager got no answer from the kernel within three minutes")


def run_all_cells(page: Page) -> None:
    page.evaluate("() => Jupyter.notebook.clear_all_output()")
    page.evaluate("() => Jupyter.notebook.execute_all_cells()")
    page.wait_for_function(
        """() => Jupyter.notebook.get_cells().every(
            cell => cell.cell_type !== "code" || !cell.get_text().trim()
                || /^\\d+$/.test(String(cell.input_prompt_number)))
            || document.querySelector(".output_error")""",
        timeout=900_000,
    )


def kernel_state(page: Page) -> str:
    """Ask the kernel for the settings of the course's widgets, as it knows them."""
    return page.evaluate(
        """() => new Promise(resolve => Jupyter.notebook.kernel.execute(
            `from ipywidgets import Widget as _W
print([{k: v for k, v in w.get_state().items() if k[0] != "_" and len(str(v)) < 200}
    for w in _W.widgets.values() if "anywidget" in str(w._model_module)])`,
            {iopub: {output: message => resolve(message.content.text)}}))"""
    )


def move_every_control(page: Page, widget) -> None:
    sentence = widget.locator("[aria-live]")

    def changes(name: str, act) -> None:
        before = sentence.inner_text(), kernel_state(page)
        act()
        assert sentence.inner_text() != before[0], f"{name} changed nothing on the page"
        for _ in range(25):  # what plays by itself tells the kernel at its next step
            if kernel_state(page) != before[1]:
                return
            page.wait_for_timeout(200)
        raise AssertionError(f"the kernel did not hear of {name}")

    for slider in widget.locator("input[type=range]").all():
        slider.focus()
        at_end = slider.evaluate("s => s.value === s.max")
        changes(
            "the slider",
            lambda at_end=at_end: page.keyboard.press("ArrowLeft" if at_end else "ArrowRight"),
        )
    for box in widget.locator("input[type=checkbox]").all():
        changes("a checkbox", box.click)
        box.click()
    for menu in widget.locator("select").all():
        other = menu.evaluate("m => m.selectedIndex === 1 ? 0 : 1")
        changes("a menu", lambda menu=menu, other=other: menu.select_option(index=other))
    for number in widget.locator("input[type=number]").all():
        number.focus()
        changes("a number", lambda: page.keyboard.press("ArrowUp"))
    for button in widget.locator("button").all():
        if button.get_attribute("aria-disabled") != "true":
            changes(button.inner_text(), button.click)
